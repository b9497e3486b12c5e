"""`make bench-faults`: faults under load, counted twice; prints a table, writes bench/results/faults.json. 1 on a miss."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import result_file
from bench.faults.audit import AuditFailedError
from bench.faults.result import Result, figures_of
from bench.faults.rounds import Rounds
from bench.faults.servers import Stage, set_up
from bench.gateway.children import ChildFailedError
from slipstream.http import call

RESULTS = Path("bench/results/faults.json")
PARTIAL = Path("bench/results/faults-partial.json")  # of a run that left something out
_COLUMNS = {
    "fault": "fault", "round": "round", "num_sent": "calls", "num_answered": "answered", "num_cancelled": "cancelled",
    "num_cut": "cut", "num_refused": "refused", "num_rows": "rows", "audit_interrupted": "interrupted (all)",
    "client_lost": "lost", "client_duplicated": "twice", "audit_lost": "lost (audit)", "settled_seconds": "settled s",
}  # fmt: skip
_ROUNDS, _AWAY_SECONDS = 20, 180.0
_KINDS = ("proxy", "postgres", "away", "disk")


def main() -> int:
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 150)
    found, began = result_file.machine(), time.monotonic()

    def tell(text: str) -> None:
        console.print(
            f"{time.monotonic() - began:5.0f} s  {text}", style="dim", markup=False, highlight=False
        )

    results, failure = list[Result](), ""
    try:
        with tempfile.TemporaryDirectory(prefix="slipstream-faults-") as name:
            directory = Path(name)
            with set_up(directory) as stage:
                asyncio.run(_measure(options, stage, directory, tell, results))
    except (ChildFailedError, AuditFailedError) as error:
        failure = str(error)
    rows = [result.row() for result in results]
    path = RESULTS if is_whole(options) and not failure else PARTIAL
    result_file.write(found, figures_of(results), rows, path)
    _show(console, rows)
    misses = [*(text for result in results for text in result.misses()), *([failure] if failure else [])]
    for text in misses:
        console.print(text, style="red", markup=False)
    is_met = not failure and bool(results) and all(result.is_met for result in results)
    console.print("every round: nothing lost, nothing twice" if is_met else "missed")
    return 0 if is_met else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 rounds of each, and Postgres away for 10 s")
    parser.add_argument("--only", action="append", choices=_KINDS, help="may be repeated")
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS, help="kills of a proxy, and of Postgres (%(default)s)"
    )
    parser.add_argument("--away-seconds", type=float, default=_AWAY_SECONDS, help="of Postgres (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.away_seconds = 2, 10
    return options


def is_whole(options: argparse.Namespace) -> bool:
    """Whether nothing of what the issue asks for is left out."""
    return not options.only and options.rounds >= _ROUNDS and options.away_seconds >= _AWAY_SECONDS


async def _measure(
    options: argparse.Namespace,
    stage: Stage,
    directory: Path,
    tell: Callable[[str], None],
    results: list[Result],
) -> None:
    call(f"http://127.0.0.1:{stage.upstream.port}/bench/pace", {"event_seconds": 0.01, "reply_seconds": 0.1})
    rounds, kinds = Rounds(stage, options.seed, tell), options.only or _KINDS
    planned = [
        *(partial(rounds.kill_proxy, n) for n in range(options.rounds if "proxy" in kinds else 0)),
        *(partial(rounds.kill_postgres, n) for n in range(options.rounds if "postgres" in kinds else 0)),
        *([partial(rounds.stop_postgres, options.away_seconds)] if "away" in kinds else []),
        *(
            partial(rounds.fill_disk, directory, is_serving=is_serving)
            for is_serving in ((False, True) if "disk" in kinds else ())
        ),
    ]
    for each in planned:
        results.append(await each())  # noqa: PERF401 - what was measured is told if a later round fails


def _show(console: Console, rows: list[dict[str, object]]) -> None:
    table = Table(title="What clients saw, and what was recorded", title_justify="left")
    for key, name in _COLUMNS.items():
        table.add_column(name, justify="left" if key == "fault" else "right")
    for row in rows:
        table.add_row(*(str(row[key]) for key in _COLUMNS), style="" if row["is_met"] else "red")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
