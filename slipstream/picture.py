"""The picture of a policy's learning: reward, entropy, divergence and lengths over its versions (`slipstream steps --picture`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.errors import UsageError

INK, LINE, BAND, OTHER, GRID = "#1c2733", "#0b6e4f", "#b8dfce", "#b5562b", "#e6eaee"
Row = dict[str, Any]


def draw(rows: Sequence[Row], title: str, path: Path) -> None:
    """Write a PNG. `rows`: published steps of one policy, of v1.step_metrics, the oldest first. A figure that a step has
    not is a gap. Raises UsageError without matplotlib.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise UsageError("A picture needs matplotlib: pip install 'slipstream[demo]'.") from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, places = plt.subplots(2, 2, figsize=(11, 7), dpi=150, sharex=True)
    reward, entropy, divergence, lengths = places.flat
    versions = [row["version"] for row in rows]
    low, high = zip(*(_band(row) for row in rows), strict=True)
    reward.fill_between(versions, low, high, color=BAND, lw=0, label="± standard deviation")
    _line(reward, rows, "reward_mean", LINE, "mean")
    _named(reward, "reward of what each step read", legend=True)
    _line(entropy, rows, "entropy", LINE, "entropy")
    entropy.set_ylim(bottom=0)
    _named(entropy, "entropy, nats a token")
    _line(divergence, rows, "approximate_kl", LINE, "from the policy that sampled")
    if any(value == value for value in _values(rows, "base_kl")):  # noqa: PLR0124 - not NaN
        _line(divergence, rows, "base_kl", OTHER, "from the base model")
    divergence.set_ylim(bottom=0)
    _named(divergence, "divergence (k3), nats a token", legend=True)
    _line(lengths, rows, "completion_tokens_mean", LINE, "mean")
    _line(lengths, rows, "completion_tokens_max", OTHER, "longest")
    lengths.set_ylim(0, 1.3 * lengths.get_ylim()[1])  # room for the legend
    _named(lengths, "tokens of a completion", legend=True)
    for place in (divergence, lengths):
        place.set_xlabel("policy version")
        place.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)  # one version, too
    figure.suptitle(title, x=0.01, ha="left", color=INK, weight="bold")
    figure.tight_layout()
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def _band(row: Row) -> tuple[float, float]:
    """A standard deviation around the mean, within the rewards that there were."""
    mean, spread, low, high = (_number(row, f"reward_{name}") for name in ("mean", "spread", "min", "max"))
    return max(mean - spread, low), min(mean + spread, high)


def _line(place: Any, rows: Sequence[Row], name: str, color: str, label: str) -> None:
    versions = [row["version"] for row in rows]
    place.plot(versions, _values(rows, name), color=color, marker="o", ms=3, lw=1.6, label=label)


def _values(rows: Sequence[Row], name: str) -> list[float]:
    """NaN where a step has none: matplotlib leaves a gap."""
    return [_number(row, name) for row in rows]


def _number(row: Row, name: str) -> float:
    return float("nan") if row.get(name) is None else float(row[name])


def _named(place: Any, title: str, *, legend: bool = False) -> None:
    place.set_title(title, loc="left", color=INK, fontsize=10)
    place.spines[["top", "right"]].set_visible(False)
    place.set_axisbelow(True)
    place.grid(axis="y", color=GRID)
    if legend:
        place.legend(frameon=False, fontsize=8)
