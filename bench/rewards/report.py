"""What a run found: a table on the screen, bench/results/rewards.json, and what falls short of the issue's targets."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.gateway.report import shown
from bench.gateway.targets import Target, Verdict

RESULTS = Path("bench/results/rewards.json")
PARTIAL = Path("bench/results/rewards-partial.json")  # of a quick run
TARGETS = (
    Target("posts_per_second", "posts a second, each answered after its commit", at_least=1_000),
    Target("paced_p99_ms", "ms from post to answer, p99 at 200/s", at_most=25),
    Target("paced_per_second", "posts answered a second meanwhile", at_least=190),
    Target("num_lost", "posts that were answered and are no event", at_most=0),
    Target("num_refused", "posts that were not answered with `recorded`", at_most=0),
)


def verdicts(figures: dict[str, float]) -> list[Verdict]:
    return [Verdict(target, figures[target.figure]) for target in TARGETS if target.figure in figures]


def write(found: dict[str, Any], figures: dict[str, float], rows: list[dict[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rounded = {name: round(value, 4) for name, value in figures.items()}
    path.write_text(json.dumps({"machine": found, "figures": rounded, "rows": rows}, indent=1) + "\n")


def show(console: Console, figures: dict[str, float], rows: list[dict[str, Any]]) -> None:
    table = Table("measure", "who", "per s", "p50 ms", "p99 ms", title="Rewards", title_justify="left")
    for row in rows:
        figure = (shown(row[name]) for name in ("per_second", "p50_ms", "p99_ms"))
        table.add_row(row["measure"], row["who"], *figure)
    console.print(table)
    cpu = (shown(figures[name]) for name in ("cpu_us", "ledger_cpu_us"))
    console.print("CPU of a post at saturation, µs: {} in the proxy, {} in Postgres".format(*cpu))
    table = Table("", "target", "wanted", "measured", title="Targets", title_justify="left")
    for verdict in verdicts(figures):
        mark = "[green]met[/]" if verdict.is_met else "[red]missed[/]"
        table.add_row(mark, verdict.target.sentence, verdict.target.bound, f"{verdict.value:,.4g}")
    console.print(table)
