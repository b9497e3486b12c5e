"""The tables that a run prints, and bench/results/gateway.json."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import result_file
from bench.gateway.figures import Row
from bench.gateway.targets import verdicts
from bench.result_file import shown
from bench.verdict import Verdict, table_of

RESULTS = Path("bench/results/gateway.json")
PARTIAL = Path("bench/results/gateway-partial.json")  # of a run that left something out
_COLUMNS = {
    "cpu_us": "CPU µs",
    "ledger_cpu_us": "Postgres µs",
    "per_second": "per s",
    "median_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "num_answered": "calls",
    "num_failed": "failed",
}


def write(found: dict[str, Any], figures: dict[str, float], rows: list[Row], path: Path) -> None:
    result_file.write(found, figures, [asdict(row) for row in rows], path)


def show(console: Console, figures: dict[str, float], rows: list[Row], found: list[Verdict]) -> None:
    table = Table(
        title="Medians over rounds; CPU is per request, or per token of a stream", title_justify="left"
    )
    for name in ("measure", "contender", *_COLUMNS.values()):
        table.add_column(name, justify="left" if name in {"measure", "contender"} else "right")
    for measure, contender in dict.fromkeys((row.measure, row.contender) for row in rows):
        values = [figures.get(f"{measure}_{contender}_{value}") for value in _COLUMNS]
        table.add_row(measure, contender, *("" if value is None else f"{shown(value)}" for value in values))
    console.print(table)
    console.print(table_of(found))


def markdown(figures: dict[str, float]) -> str:
    """The table of docs/performance.md."""
    lines = ["| | wanted | measured |", "| --- | --- | --- |"]
    for verdict in verdicts(figures):
        target = verdict.target
        mark = "" if verdict.is_met else " (missed)"
        lines.append(f"| {target.sentence} | {target.bound} | {shown(verdict.value)}{mark} |")
    return "\n".join(lines)
