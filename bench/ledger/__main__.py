"""`make bench-ledger`: write, look, fill and ask; print, write bench/results/ledger.json. 1 if a target is missed."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench import result_file
from bench.gateway.children import ChildFailedError
from bench.gateway.slipstream import Ledger, running_ledger
from bench.ledger import plans, questions, report, visible, writing


@dataclass(frozen=True)
class Sizes:
    writing_seconds: float = 30
    visible_seconds: float = 30
    num_exchanges: int = 1_000_000
    num_runs: int = 2


@dataclass(frozen=True)
class Measured:
    """What a measure works with. Each has a ledger of its own."""

    directory: Path
    ledger: Ledger
    sizes: Sizes
    tell: Callable[[str], None]
    answers: list[questions.Answer]  # the questions' own go here


QUICK = Sizes(5, 5, 50_000, 1)
_RATE = 200


def main() -> int:
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 120)
    found, sizes, began_at = result_file.machine(), QUICK if options.quick else Sizes(), time.monotonic()

    def tell(what: str) -> None:
        console.print(
            f"{time.monotonic() - began_at:5.0f} s  {what}", style="dim", markup=False, highlight=False
        )

    figures, answers = dict[str, float](), list[questions.Answer]()
    try:
        with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as directory:
            for name in options.only or MEASURES:
                with running_ledger(_new(Path(directory), name)) as ledger:
                    tell(f"measuring: {name}")
                    figures |= MEASURES[name](Measured(Path(directory), ledger, sizes, tell, answers))
    except (ChildFailedError, writing.LostRowsError, questions.QuestionFailedError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    is_whole = not options.quick and not options.only
    report.write(found, figures, answers, report.RESULTS if is_whole else report.PARTIAL)
    report.show(console, figures, answers)
    return 1 if any(not verdict.is_met for verdict in report.verdicts(figures)) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-ledger", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a short run, 50,000 exchanges instead of a million"
    )
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="may be repeated")
    return parser.parse_args()


def _new(directory: Path, name: str) -> Path:
    made = directory / name
    made.mkdir()
    return made


def _writing(to: Measured) -> dict[str, float]:
    found = writing.measure(to.ledger.url, to.sizes.writing_seconds)
    return {
        "rows_per_second": found.rows_per_second,
        "inserts_per_second": found.inserts_per_second,
        "rows_over_inserts": found.rows_per_second / found.inserts_per_second,
        "bytes_as_json": found.bytes_json,
        "bytes_stored": found.bytes_stored,
        "stored_over_json": found.bytes_stored / found.bytes_json,
    }


def _visible(to: Measured) -> dict[str, float]:
    seen = visible.measure(to.directory, to.ledger, _RATE, to.sizes.visible_seconds)
    delays = seen.delays_ms()
    return {
        "visible_p50_ms": delays[len(delays) // 2],
        "visible_p99_ms": delays[int(len(delays) * 0.99)],
        "visible_calls_per_second": len(delays) / seen.seconds,
        "num_answered": len(delays),
        "num_lost": seen.num_failed + len(seen.answered.keys() - seen.visible.keys()),
    }


def _questions(to: Measured) -> dict[str, float]:
    seconds = questions.fill(to.ledger.url, to.sizes.num_exchanges, to.tell)
    to.tell(f"asking {len(questions.QUERIES)} questions")
    to.answers.extend(questions.ask_all(to.ledger.url, to.sizes.num_runs))
    return {
        "num_exchanges": to.sizes.num_exchanges,
        "loading_seconds": seconds,
        "slowest_question_seconds": max(one.seconds for one in to.answers),
        "num_read_whole": len(plans.all_read_whole(to.ledger.url)),
    }


MEASURES: dict[str, Callable[[Measured], dict[str, float]]] = {
    "writing": _writing, "visible": _visible, "questions": _questions,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
