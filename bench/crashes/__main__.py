"""`make bench-crashes`: crashes of a step; prints a table of outcomes, writes bench/results/crashes.json. 1 on a miss."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import result_file
from bench.crashes.account import Digests, Expected
from bench.crashes.crew import TooLateError
from bench.crashes.matrix import Case, cases
from bench.crashes.result import Result, figures_of
from bench.crashes.round import new_round
from bench.crashes.stage import Stage, set_up
from bench.gateway.children import ChildFailedError

RESULTS = Path("bench/results/crashes.json")
PARTIAL = Path("bench/results/crashes-partial.json")  # of a run that left something out
_NUM_STEPS = 3
_KINDS = ("kill", "message", "valkey", "workers", "postgres", "clock", "batch")
_COLUMNS = {
    "kind": "what", "name": "crash", "num_kills": "kills", "num_versions": "versions", "num_other_bytes": "other bytes",
    "seconds": "until published, s at most", "outcome": "outcome",
}  # fmt: skip
Tell = Callable[[str], None]


def main() -> int:
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 150)
    found, began = result_file.machine(), time.monotonic()

    def tell(words: str) -> None:
        console.print(
            f"{time.monotonic() - began:5.0f} s  {words}", style="dim", markup=False, highlight=False
        )

    results, failure = list[Result](), ""
    chosen = [case for case in cases(options.steps) if _is_wanted(case, options)]
    try:
        with tempfile.TemporaryDirectory(prefix="slipstream-crashes-") as name, set_up(Path(name)) as stage:
            _measure(stage, chosen, tell, results)
    except (ChildFailedError, TooLateError) as error:
        failure = str(error)
    is_whole = options.steps >= _NUM_STEPS and not (options.only or options.match or failure)
    rows = [result.row() for result in results]
    result_file.write(found, figures_of(results), rows, RESULTS if is_whole else PARTIAL)
    _show(console, rows)
    misses = [*(words for result in results for words in result.misses()), *([failure] if failure else [])]
    for words in misses:
        console.print(words, style="red", markup=False)
    is_met = bool(results) and not misses
    console.print("one version a step, no gap, the same bytes" if is_met else "missed")
    return 0 if is_met else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-crashes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each crash in one step instead of three")
    parser.add_argument("--only", action="append", choices=_KINDS, help="may be repeated")
    parser.add_argument("--match", default="", help="only crashes whose name holds this")
    parser.add_argument(
        "--steps",
        type=int,
        default=_NUM_STEPS,
        help="in how many steps in a row each kill happens (%(default)s)",
    )
    options = parser.parse_args()
    if options.quick:
        options.steps = 1
    return options


def _is_wanted(case: Case, options: argparse.Namespace) -> bool:
    return (not options.only or case.kind in options.only) and options.match in case.name


def _measure(stage: Stage, chosen: list[Case], tell: Tell, results: list[Result]) -> None:
    reference = _undisturbed(stage)
    tell(f"undisturbed: {len(reference)} versions")
    for number, case in enumerate(chosen):
        result = _play(stage, case, f"round_{number}", reference)
        tell(f"{case.kind}, {case.name}: {result.outcome}, {result.seconds:.1f} s")
        results.append(result)


def _undisturbed(stage: Stage) -> Digests:
    """What all others are compared with: three steps in a row with nothing in their way."""
    with new_round(stage, "undisturbed") as run:
        run.crew.beat()
        run.crew.worker("worker")
        for version in range(1, _NUM_STEPS + 1):
            run.add(version)
            run.await_published(version)
        reference = run.digests()
        if faults := run.account(reference, Expected(_NUM_STEPS, attempts=1)).faults:
            raise TooLateError(f"undisturbed: {'; '.join(faults)}")
        return reference


def _play(stage: Stage, case: Case, name: str, reference: Digests) -> Result:
    """A round that does not come to its end is a miss with its reason, and the others go on."""
    with new_round(stage, name, **case.settings) as run:
        try:
            expected = case.play(run)
        except TooLateError as error:
            return Result(case.kind, case.name, run.num_kills, run.seconds, None, [str(error)])
        return Result(case.kind, case.name, run.num_kills, run.seconds, run.account(reference, expected))


def _show(console: Console, rows: list[dict[str, object]]) -> None:
    table = Table(title="Crashes of a step, and what came of it", title_justify="left")
    for key, name in _COLUMNS.items():
        table.add_column(name, justify="left" if key in {"kind", "name", "outcome"} else "right")
    for row in rows:
        table.add_row(*(str(row[key]) for key in _COLUMNS), style="" if row["is_met"] else "red")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
