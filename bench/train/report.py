"""What the rounds say together, and what falls short of the targets."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import result_file
from bench.train.shapes import SHAPES
from bench.verdict import Target, Verdict, judge, table_of

RESULTS = Path("bench/results/train.json")
PARTIAL = Path("bench/results/train-partial.json")  # of a run that left something out
WANTED = {"short": (2.8, 0.7), "prompt": (4.5, 0.35), "turns": (10, 0.3)}  # times TRL's speed, of its memory
TITLES = {shape.name: shape.title for shape in SHAPES}
TARGETS = (
    *(
        Target(
            f"{name}_speed", f"completion tokens a CPU second, times TRL's: {TITLES[name]}", at_least=speed
        )
        for name, (speed, _) in WANTED.items()
    ),
    *(
        Target(f"{name}_memory", f"peak memory, of TRL's: {TITLES[name]}", at_most=memory)
        for name, (_, memory) in WANTED.items()
    ),
    Target("forwarded_over_needed", "tokens forwarded, times those needed, worst shape", at_most=1.02),
    Target("gradient_error", "relative error of the worst LoRA gradient against float64", at_most=1e-4),
    Target("grad_norm_difference", "our gradient's norm against TRL's, relative, worst shape", at_most=1e-2),
)
Rows = Sequence[dict[str, Any]]


def figures_of(rows: Rows, exact: dict[str, Any]) -> dict[str, float]:
    """Ratios are taken within a round; the median over rounds counts. `rows`: one per shape, round and side."""
    figures: dict[str, float] = {"gradient_error": exact["largest_error"]}
    differences, forwarded = [0.0], [0.0]
    for name in dict.fromkeys(row["shape"] for row in rows):
        ours, trl, keeping = (_of(rows, name, side) for side in ("slipstream", "trl", "trl_keeping"))
        figures[f"{name}_speed"] = _ratio(trl, ours, "cpu_seconds")
        figures[f"{name}_memory"] = _ratio(ours, trl, "peak_mib")
        figures[f"{name}_memory_above"] = _ratio(ours, trl, "above_mib")
        if keeping:
            figures[f"{name}_speed_keeping"] = _ratio(keeping, ours, "cpu_seconds")
            figures[f"{name}_memory_keeping"] = _ratio(ours, keeping, "peak_mib")
        differences += [abs(a["grad_norm"] / b["grad_norm"] - 1) for a, b in zip(ours, trl, strict=True)]
        forwarded += [one["num_forwarded_tokens"] / one["num_needed_tokens"] for one in ours]
    return figures | {"grad_norm_difference": max(differences), "forwarded_over_needed": max(forwarded)}


def _of(rows: Rows, shape: str, side: str) -> Rows:
    return [row for row in rows if (row["shape"], row["side"]) == (shape, side)]


def _ratio(above: Rows, below: Rows, figure: str) -> float:
    return float(median(a[figure] / b[figure] for a, b in zip(above, below, strict=True)))


def verdicts(figures: dict[str, float]) -> list[Verdict]:
    return judge(TARGETS, figures)


def write(found: dict[str, Any], figures: dict[str, float], rows: Rows, path: Path) -> None:
    rounded = {name: float(f"{value:.3g}") for name, value in figures.items()}
    result_file.write(found | {"exact": rounded}, figures, rows, path)


def show(console: Console, figures: dict[str, float], rows: Rows) -> None:
    table = Table(title="One step each, second of two", title_justify="left")
    for heading in (
        "shape",
        "side",
        "round",
        "CPU s",
        "peak MiB",
        "above the loaded model",
        "gradient's norm",
    ):
        table.add_column(heading, justify="left" if heading in {"shape", "side"} else "right")
    for row in rows:
        table.add_row(
            row["shape"], row["side"], str(row["round"]), f"{row['cpu_seconds']:.1f}", f"{row['peak_mib']:,.0f}",
            f"{row['above_mib']:,.0f}", f"{row['grad_norm']:.5f}",
        )  # fmt: skip
    console.print(table)
    console.print(table_of(verdicts(figures)))
