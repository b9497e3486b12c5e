"""What a run found: a table on the screen, bench/results/scale.json, and what falls short of the issue's targets."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.result_file import shown
from bench.verdict import Target, Verdict, judge, table_of

RESULTS = Path("bench/results/scale.json")
PARTIAL = Path("bench/results/scale-partial.json")  # of a quick run
TARGETS = (
    Target("speedup", "speed of two processes of one thread, in those of one (two free cores)", at_least=1.5),
    Target("difference_millionths", "largest difference of a weight after all steps, in 1e-6", at_most=10),
    Target(
        "difference_sharded_millionths",
        "the same with the base split over the two, and one process whose rows hang on no stems, as theirs",
        at_most=10,
    ),
)


def verdicts(figures: dict[str, float]) -> list[Verdict]:
    return judge(TARGETS, figures)


def show(console: Console, figures: dict[str, float], rows: list[dict[str, Any]]) -> None:
    table = Table(
        "who", "step", "seconds", "memory MiB", "balance", title="A step, shared", title_justify="left"
    )
    for row in rows:
        table.add_row(
            row["who"],
            str(row["step"]),
            shown(row["seconds"]),
            shown(row["memory_mib"]),
            shown(row["balance"]),
        )
    console.print(table)
    console.print(f"Starting two processes and loading the base: {shown(figures['seconds_start'])} s, once.")
    console.print(
        f"One process with stems and without: {shown(figures['difference_stems_millionths'])} millionths apart."
    )
    console.print(table_of(verdicts(figures)))
