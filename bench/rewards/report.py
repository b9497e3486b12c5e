"""What a run found: a table on the screen, bench/results/rewards.json, and what falls short of the issue's targets."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.result_file import shown
from bench.verdict import Target, Verdict, judge, table_of

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
    return judge(TARGETS, figures)


def show(console: Console, figures: dict[str, float], rows: list[dict[str, Any]]) -> None:
    table = Table("measure", "who", "per s", "p50 ms", "p99 ms", title="Rewards", title_justify="left")
    for row in rows:
        figure = (shown(row[name]) for name in ("per_second", "p50_ms", "p99_ms"))
        table.add_row(row["measure"], row["who"], *figure)
    console.print(table)
    cpu = (shown(figures[name]) for name in ("cpu_us", "ledger_cpu_us"))
    console.print("CPU of a post at saturation, µs: {} in the proxy, {} in Postgres".format(*cpu))
    console.print(table_of(verdicts(figures)))
