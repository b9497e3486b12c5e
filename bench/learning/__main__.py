"""`make bench-learning`: each rung of the ladder learns the same task from as many calls and thumbs, three seeds each.

Prints tables, writes bench/results/learning.json; 1 if a target is missed. Each run's own figures are kept in
bench/results/learning/, and `--resume` makes only those that are not there.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from bench.gateway.children import ChildFailedError
from bench.learning import report
from bench.learning.picture import draw
from bench.learning.rungs import RUNGS
from bench.learning.serving import one_vllm
from bench.result_file import machine
from examples.demo.display import Display
from examples.demo.stack import StackFailedError
from examples.feedback.course import HOME, ROUNDS, Plan, take
from examples.feedback.result import Result, read
from slipstream.errors import UsageError

RUNS = Path("bench/results/learning")
SEEDS = (0, 1, 2)


def main() -> int:
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 150)
    found, seeds = machine(), options.seed or SEEDS[: 1 if options.quick else None]
    wanted = [(name, seed) for name in options.only or RUNGS for seed in seeds]
    if not options.resume:
        shutil.rmtree(RUNS, ignore_errors=True)
    try:
        console.print("starting vLLM, for all runs", style="dim")
        with one_vllm(HOME, RUNS) as server:
            results = [
                _run(
                    Plan(name, seed, RUNGS[name].groups_per_step, options.rounds, f"{name}-{seed}"),
                    server,
                    title,
                )
                for title, name, seed in _titled(wanted)
            ]
    except (ChildFailedError, StackFailedError, UsageError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    figures = report.figures_of(results)
    is_whole = not (options.only or options.quick or options.seed) and options.rounds == ROUNDS
    path = report.RESULTS if is_whole else report.PARTIAL
    report.write(found, figures, results, path)
    draw(results, path.with_suffix(".png"))
    report.show(console, figures, results)
    return 1 if any(not verdict.is_met for verdict in report.verdicts(figures)) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-learning", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed instead of three")
    parser.add_argument("--only", action="append", choices=list(RUNGS), help="may be repeated")
    parser.add_argument("--seed", action="append", type=int, help="may be repeated (0, 1 and 2)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of 160 calls each (%(default)s)")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are there")
    return parser.parse_args()


def _titled(wanted: list[tuple[str, int]]) -> Iterator[tuple[str, str, int]]:
    for number, (name, seed) in enumerate(wanted, start=1):
        yield f"run {number} of {len(wanted)}: {name}, seed {seed}", name, seed


def _run(plan: Plan, server: dict[str, str], title: str) -> Result:
    """A run, or what is there of it already."""
    path = RUNS / f"{plan.name}-{plan.seed}.json"
    if path.exists():
        return read(path)
    practise = RUNGS[plan.name].practise(plan.seed, plan.num_rounds)
    with Display(num_steps=plan.num_rounds, title=title) as display:
        display.say(title)
        result = take(plan, practise, display, server)
    display.console.print(display.table(), highlight=False)
    result.write(RUNS)
    return result


if __name__ == "__main__":
    sys.exit(main())
