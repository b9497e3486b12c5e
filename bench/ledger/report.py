"""What a run found: tables on the screen, bench/results/ledger.json, and what falls short of the issue's targets."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import result_file
from bench.ledger.questions import Answer
from bench.verdict import Target, Verdict, judge, table_of

RESULTS = Path("bench/results/ledger.json")
PARTIAL = Path("bench/results/ledger-partial.json")  # of a quick run
TARGETS = (
    Target("rows_per_second", "rows of 9 KB a second, one writer", at_least=1_500),
    Target("rows_over_inserts", "times the rows of single inserts", at_least=4),
    Target("visible_p99_ms", "ms from the answer to the row in SQL, p99 at 200/s", at_most=300),
    Target("visible_calls_per_second", "calls answered a second meanwhile", at_least=190),
    Target("num_lost", "calls that failed or whose row did not come", at_most=0),
    Target("num_read_whole", "large tables read whole for a few rows", at_most=0),
    Target("slowest_question_seconds", "seconds, the slowest of the questions", at_most=2),
)


def verdicts(figures: dict[str, float]) -> list[Verdict]:
    return judge(TARGETS, figures)


def write(found: dict[str, Any], figures: dict[str, float], answers: list[Answer], path: Path) -> None:
    rows = [{"measure": "question", "name": one.name, "seconds": round(one.seconds, 3)} for one in answers]
    result_file.write(found, figures, rows, path)


def show(console: Console, figures: dict[str, float], answers: list[Answer]) -> None:
    table = Table("question", "seconds", "lines", title="examples/sql", title_justify="left")
    for one in sorted(answers, key=lambda one: -one.seconds):
        table.add_row(one.name, f"{one.seconds:.2f}", str(one.num_lines))
    console.print(table)
    table = Table("figure", "measured", title="Figures", title_justify="left")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.0f}" if value >= 100 else f"{value:.3g}")
    console.print(table)
    console.print(table_of(verdicts(figures)))
