"""`make bench-ledger`: write, look, fill and ask; print, write bench/results/ledger.json. 1 if a target is missed."""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.gateway import report as gateway
from bench.gateway.children import ChildFailedError
from bench.gateway.slipstream import Ledger, running_ledger
from bench.ledger import questions, report, visible, writing


@dataclass(frozen=True)
class Sizes:
    writing_seconds: float = 30
    visible_seconds: float = 30
    num_exchanges: int = 1_000_000
    num_runs: int = 2


QUICK = Sizes(5, 5, 50_000, 1)
_RATE = 200


def main() -> int:
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 120)
    found, sizes, began_at = gateway.machine(), QUICK if options.quick else Sizes(), time.monotonic()

    def tell(what: str) -> None:
        console.print(
            f"{time.monotonic() - began_at:5.0f} s  {what}", style="dim", markup=False, highlight=False
        )

    figures: dict[str, float] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as directory:
            for measure in (_writing, _visible):
                with running_ledger(_new(Path(directory), measure.__name__)) as ledger:
                    tell(f"measuring{measure.__name__.replace('_', ' ')}")
                    figures |= measure(Path(directory), ledger, sizes)
            with running_ledger(_new(Path(directory), "world")) as ledger:
                figures["loading_seconds"] = questions.fill(ledger.url, sizes.num_exchanges, tell)
                tell(f"asking {len(questions.QUERIES)} questions")
                answers = questions.ask_all(ledger.url, sizes.num_runs)
    except ChildFailedError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    figures["num_exchanges"] = sizes.num_exchanges
    figures["slowest_question_seconds"] = max(one.seconds for one in answers)
    report.write(found, figures, answers, report.PARTIAL if options.quick else report.RESULTS)
    report.show(console, figures, answers)
    return 1 if any(not verdict.is_met for verdict in report.verdicts(figures)) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-ledger", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a short run, 50,000 exchanges instead of a million"
    )
    return parser.parse_args()


def _new(directory: Path, name: str) -> Path:
    made = directory / name.strip("_")
    made.mkdir()
    return made


def _writing(_: Path, ledger: Ledger, sizes: Sizes) -> dict[str, float]:
    found = writing.measure(ledger.url, sizes.writing_seconds)
    return {
        "rows_per_second": found.rows_per_second,
        "inserts_per_second": found.inserts_per_second,
        "rows_over_inserts": found.rows_per_second / found.inserts_per_second,
        "bytes_as_json": found.bytes_json,
        "bytes_stored": found.bytes_stored,
        "stored_over_json": found.bytes_stored / found.bytes_json,
    }


def _visible(directory: Path, ledger: Ledger, sizes: Sizes) -> dict[str, float]:
    seen = visible.measure(directory, ledger, _RATE, sizes.visible_seconds)
    delays = seen.delays_ms()
    return {
        "visible_p50_ms": delays[len(delays) // 2],
        "visible_p99_ms": delays[int(len(delays) * 0.99)],
        "num_answered": len(delays),
        "num_lost": seen.num_failed + len(seen.answered.keys() - seen.visible.keys()),
    }


if __name__ == "__main__":
    sys.exit(main())
