"""The picture: mean reward on held-out prompts over policy versions, with its confidence band."""

from collections.abc import Mapping
from pathlib import Path

from examples.demo.statistics import Score

INK, LINE, BAND, PRACTICE = "#1c2733", "#0b6e4f", "#b8dfce", "#9aa7b4"


def draw(exams: Mapping[int, Score], practice: Mapping[int, float], title: str, path: Path) -> None:
    """Write a PNG. `exams`: version -> held-out score. `practice`: version -> mean reward of its own traffic."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    versions = sorted(exams)
    figure, axes = plt.subplots(figsize=(9, 5), dpi=150)
    axes.plot(
        *zip(*sorted(practice.items()), strict=True),
        color=PRACTICE,
        marker=".",
        lw=1,
        label="practice (trained on)",
    )
    axes.fill_between(
        versions,
        [exams[v].low for v in versions],
        [exams[v].high for v in versions],
        color=BAND,
        label="95 % interval",
    )
    axes.plot(
        versions, [exams[v].mean for v in versions], color=LINE, marker="o", lw=2, label="held-out prompts"
    )
    for version in (versions[0], versions[-1]):
        axes.annotate(
            f"{exams[version].mean:.2f}",
            (version, exams[version].mean),
            textcoords="offset points",
            xytext=(0, 12),
            ha="center",
            color=INK,
            weight="bold",
        )
    axes.set(xlabel="policy version (0 = the base model)", ylabel="mean reward", ylim=(-0.02, 1.08))
    axes.set_xticks(range(versions[0], versions[-1] + 1))
    axes.set_title(title, loc="left", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="#e6eaee")
    axes.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
