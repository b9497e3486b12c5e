"""The ladder's picture: held-out reward over the calls served, a line a rung, the mean of its seeds."""

from collections.abc import Sequence
from pathlib import Path

from examples.feedback.result import Examined, Result, together

COLOURS = {
    "explicit": "#8a6d00",
    "choices": "#3f6fb5",
    "prompt": "#7d4ba0",
    "running": "#0b6e4f",
    "shuffled": "#b5562b",
}


def draw(results: Sequence[Result], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5), dpi=150)
    for name, colour in COLOURS.items():
        runs = [one for one in results if one.name == name]
        if not runs:
            continue
        points = [(calls, together([exam.score for exam in exams])) for calls, exams in steps(runs)]
        calls = [number for number, _ in points]
        axes.fill_between(
            calls, [score.low for _, score in points], [score.high for _, score in points], color=colour, alpha=0.12
        )  # fmt: skip
        axes.plot(calls, [score.mean for _, score in points], color=colour, marker="o", ms=4, label=name)
    axes.set(xlabel="calls served, 30 % of them judged", ylabel="mean reward on held-out prompts")
    axes.set_ylim(-0.02, 1.05)
    axes.set_title("What each rung makes of the same calls", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6eaee")
    axes.legend(frameon=False, loc="upper left")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def steps(runs: Sequence[Result]) -> list[tuple[int, list[Examined]]]:
    """At each number of calls after which some run was examined: every run's newest exam by then."""
    moments = sorted({exam.num_calls for one in runs for exam in one.exams})
    return [
        (moment, [[exam for exam in one.exams if exam.num_calls <= moment][-1] for one in runs])
        for moment in moments
    ]
