"""The picture: held-out reward over the calls served, true thumbs beside shuffled ones, each seed with its interval."""

from collections.abc import Sequence
from pathlib import Path

from examples.feedback.result import Result

INK, GRID = "#1c2733", "#e6eaee"
LOOKS = {"running": ("#0b6e4f", "true thumbs"), "shuffled": ("#b5562b", "shuffled thumbs")}


def draw(results: Sequence[Result], title: str, path: Path) -> None:
    """Write a PNG of the runs whose names are in LOOKS: a line a seed, a bar where the interval is."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5), dpi=150)
    shown = [one for one in results if one.name in LOOKS]
    for number, one in enumerate(shown):
        colour, label = LOOKS[one.name]
        is_first = all(other.name != one.name for other in shown[:number])
        offset = 6 * (one.seed - 1) + (-3 if one.name == "running" else 3)  # calls: bars stay apart
        calls = [exam.num_calls + offset for exam in one.exams]
        means = [exam.score.mean for exam in one.exams]
        below = [exam.score.mean - exam.score.low for exam in one.exams]
        above = [exam.score.high - exam.score.mean for exam in one.exams]
        axes.errorbar(
            calls, means, yerr=[below, above], color=colour, ecolor=colour, elinewidth=1, capsize=2, marker="o",
            ms=4, lw=1.6, alpha=0.85, label=f"{label}, a line a seed" if is_first else None,
        )  # fmt: skip
    axes.set(
        xlabel="calls served, one sample per prompt; 30 % of them got a thumb. Bars: 95 % intervals over 16 sentences",
        ylabel="mean reward on held-out prompts",
        ylim=(-0.02, 1.05),
    )
    axes.set_title(title, loc="left", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID)
    if shown:
        axes.legend(frameon=False, loc="upper left")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
