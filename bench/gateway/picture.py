"""`python -m bench.gateway.picture`: bench/results/gateway.json as docs/pictures/gateway.png, and as docs' table."""

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.gateway.figures import FLOOR, OURS, TODAY
from bench.gateway.report import RESULTS, markdown
from bench.result_file import shown

PICTURE = Path("docs/pictures/gateway.png")
_NAMES = {FLOOR: "nginx (reads nothing)", OURS: "Slipstream", TODAY: "LiteLLM's proxy"}
_COLOURS = {FLOOR: "#9aa5b1", OURS: "#1f6feb", TODAY: "#d1495b"}
_PANELS = {
    "CPU of a request, µs": "unstreamed_{}_cpu_us",
    "CPU of a streamed token, µs": "chunk_{}_cpu_us",
    "added to a request, ms (median)": "latency_added_{}_median_ms",
    "added to the first token, ms (median)": "first_token_added_{}_median_ms",
}


def draw(figures: dict[str, float], path: Path) -> None:
    panels, axes = plt.subplots(2, 2, figsize=(9.6, 3.6), layout="constrained")
    for axis, (title, name) in zip(axes.flat, _PANELS.items(), strict=True):
        _draw_panel(axis, title, {who: figures[name.format(who)] for who in _NAMES})
    panels.savefig(path, dpi=120)
    plt.close(panels)


def _draw_panel(axis: Axes, title: str, values: dict[str, float]) -> None:
    """Points on a logarithmic axis (a bar has no beginning there), each with its number."""
    least = max(min(values.values()), 0.01)
    for height, (who, value) in enumerate(reversed(values.items())):
        axis.plot(max(value, 0.01), height, "o", markersize=11, color=_COLOURS[who])
        axis.annotate(
            shown(value), (max(value, 0.01), height), (10, 0), textcoords="offset points", va="center"
        )
    axis.set_yticks(range(len(values)), [_NAMES[who] for who in reversed(values)])
    axis.set_ylim(-0.6, len(values) - 0.4)
    axis.set_xscale("log")
    axis.set_xlim(least / 3, max(values.values()) * 8)
    axis.set_title(title, fontsize=10, loc="left")
    axis.grid(axis="x", color="#e4e7eb")
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0, labelsize=9)
    axis.tick_params(axis="x", which="both", length=0, labelsize=7, colors="#77808a")
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)


if __name__ == "__main__":
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["figures"]
    draw(found, PICTURE)
    print(markdown(found))
