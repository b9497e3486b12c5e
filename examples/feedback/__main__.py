"""`python -m examples.feedback --seed N [--shuffled]`: learning from thumbs alone, on the embedded stack.

1 start the stack   2 examine version 0 on held-out prompts   3 serve calls, 30 % get a thumb, wait for the next version,
examine it, again   4 print the table, write results/NAME-SEED.json, draw results/feedback.png of all runs so far

Exit code 0 where true thumbs improved it with intervals that do not touch, and where shuffled ones did not.
"""

import argparse
import sys

from examples.demo.display import Display
from examples.demo.stack import StackFailedError
from examples.feedback.chart import draw
from examples.feedback.course import HOME, RESULTS, ROUNDS, Plan, take
from examples.feedback.result import Result, read_all
from examples.feedback.traffic import THUMBS_PER_ROUND, thumbs_alone
from slipstream.errors import UsageError


def main() -> int:
    options = _options()
    name = "shuffled" if options.shuffled else "running"
    plan = Plan(name, options.seed, THUMBS_PER_ROUND, options.rounds)
    with Display(num_steps=options.rounds) as display:
        try:
            practise = thumbs_alone(options.seed, options.rounds, is_shuffled=options.shuffled)
            result = take(plan, practise, display)
        except (StackFailedError, UsageError) as error:
            display.console.print(str(error), style="red", markup=False)
            return 1
    result.write(RESULTS)
    draw(read_all(RESULTS), "Reading order numbers: what thumbs alone teach", RESULTS / "feedback.png")
    _tell(display, result)
    return 0 if result.has_improved is not options.shuffled else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.feedback", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="prompts, sampling, who speaks, LoRA's beginning")
    parser.add_argument("--shuffled", action="store_true", help="the control: thumbs on the wrong answers")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of 160 calls each (%(default)s)")
    return parser.parse_args()


def _tell(display: Display, result: Result) -> None:
    low, gain, high = result.gain()
    display.console.print(display.table())
    display.console.print(
        f"\n{result.num_calls} calls, {result.num_thumbs} thumbs ({result.num_up} up)"
        f"{', shuffled' if result.name == 'shuffled' else ''}: held-out reward "
        f"{result.before.mean:.3f} → {result.after.mean:.3f}, gained {gain:.3f} ({low:.3f} to {high:.3f}), "
        f"{result.seconds:.0f} s (seed {result.seed}).\n"
        f"The picture:      {RESULTS}/feedback.png\n"
        f"The figures:      {RESULTS}/{result.name}-{result.seed}.json\n"
        f"Keep it running:  SLIPSTREAM_POLICY=orders .venv/bin/slipstream --home {HOME} up\n"
        f"What taught then: .venv/bin/slipstream --home {HOME} psql -f examples/sql/trained_by_version.sql",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
