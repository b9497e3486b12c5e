"""`python -m bench.gateway.picture`: bench/results/gateway.json as docs/pictures/gateway.png, and as docs' table."""

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.gateway.figures import FLOOR, OURS, TODAY
from bench.gateway.report import RESULTS, markdown

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
    panels, axes = plt.subplots(2, 2, figsize=(9, 4.2), layout="constrained")
    for axis, (title, name) in zip(axes.flat, _PANELS.items(), strict=True):
        _draw_panel(axis, title, {who: figures[name.format(who)] for who in _NAMES})
    panels.savefig(path, dpi=130)
    plt.close(panels)


def _draw_panel(axis: Axes, title: str, values: dict[str, float]) -> None:
    """Bars on a logarithmic axis, each with its number."""
    who = list(values)[::-1]
    bars = axis.barh(
        [_NAMES[name] for name in who],
        [max(values[name], 0.01) for name in who],
        color=[_COLOURS[name] for name in who],
        height=0.62,
    )
    axis.bar_label(bars, [f" {values[name]:,.3g}" for name in who], fontsize=9)
    axis.set_xscale("log")
    axis.set_xlim(right=max(values.values()) * 5)
    axis.set_title(title, fontsize=10, loc="left")
    axis.tick_params(axis="y", length=0, labelsize=9)
    axis.tick_params(axis="x", which="both", labelsize=7, colors="#77808a")
    axis.spines[["top", "right", "left"]].set_visible(False)


if __name__ == "__main__":
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["figures"]
    draw(found, PICTURE)
    print(markdown(found))
