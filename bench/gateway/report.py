"""The tables that a run prints, and bench/results/gateway.json."""

import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from bench.gateway.figures import Row
from bench.gateway.targets import Verdict, verdicts

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


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_before": os.getloadavg()[0],
        "at": time.strftime("%Y-%m-%d %H:%M"),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )


def write(found: dict[str, Any], figures: dict[str, float], rows: list[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "machine": found,
        "figures": {name: round(value, 4) for name, value in figures.items()},
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


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
    console.print(_judged(found))


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def markdown(figures: dict[str, float]) -> str:
    """The table of docs/performance.md."""
    lines = ["| | wanted | measured |", "| --- | --- | --- |"]
    for verdict in verdicts(figures):
        target = verdict.target
        mark = "" if verdict.is_met else " (missed)"
        lines.append(f"| {target.sentence} | {target.bound} | {shown(verdict.value)}{mark} |")
    return "\n".join(lines)


def _judged(found: list[Verdict]) -> Table:
    table = Table(title="Targets", title_justify="left")
    for name in ("", "target", "wanted", "measured"):
        table.add_column(name, justify="right" if name in {"wanted", "measured"} else "left")
    for verdict in found:
        mark = "[green]met[/]" if verdict.is_met else "[red]missed[/]"
        table.add_row(mark, verdict.target.sentence, verdict.target.bound, f"{verdict.value:,.4g}")
    return table
