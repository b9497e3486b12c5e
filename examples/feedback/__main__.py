"""`python -m examples.feedback --seed N [--shuffled]`: learning from thumbs alone, on the embedded stack.

1 start the stack   2 examine version 0 on held-out prompts   3 serve calls, 30 % get a thumb, wait for the next version,
examine it, again   4 print the table, write results/NAME-SEED.json, draw results/feedback.png of all runs so far
"""

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path

from openai import AsyncOpenAI

from examples.demo.display import Display
from examples.demo.stack import StackFailedError, forget_last_run, running_stack
from examples.feedback.chart import draw
from examples.feedback.course import Course
from examples.feedback.result import Result, read_all
from examples.feedback.traffic import CALLS_PER_ROUND, SHARE, Round, serve
from examples.orders.program import MODEL
from examples.orders.task import Prompt, prompts
from slipstream.errors import UsageError

HOME = Path(".slipstream/feedback")
RESULTS = HOME / "results"
ROUNDS = 5
THUMBS_PER_STEP = round(CALLS_PER_ROUND * SHARE)
LEARNING = {
    "SLIPSTREAM_POLICY": MODEL,
    "SLIPSTREAM_LEARNING_RATE": "3e-4",
    "SLIPSTREAM_STEP_GROUPS": str(THUMBS_PER_STEP),
    "SLIPSTREAM_STEP_MAX_GROUPS": str(THUMBS_PER_STEP),
    "SLIPSTREAM_GROUP_GRACE_SECONDS": "1",
    "SLIPSTREAM_TICK_SECONDS": "1",
}


def main() -> int:
    options = _options()
    name = "shuffled" if options.shuffled else "running"
    training = prompts(options.seed, training=CALLS_PER_ROUND * options.rounds)[0]
    practise = partial(_practise, training, options.seed, is_shuffled=options.shuffled)
    with Display(num_steps=options.rounds) as display:
        try:
            forget_last_run(HOME, frozenset({RESULTS.name}))
            with running_stack(HOME, LEARNING | {"SLIPSTREAM_SEED": str(options.seed)}, display) as base_url:
                course = Course(base_url, options.seed, display, HOME / "logs" / "worker.log")
                result = asyncio.run(course.run(practise, options.rounds, name))
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


async def _practise(
    training: list[Prompt], seed: int, client: AsyncOpenAI, round_index: int, *, is_shuffled: bool
) -> Round:
    begin = CALLS_PER_ROUND * round_index
    batch = training[begin : begin + CALLS_PER_ROUND]  # no prompt is ever asked twice
    return await serve(client, batch, seed=seed * 1000 + round_index + 1, is_shuffled=is_shuffled)


def _tell(display: Display, result: Result) -> None:
    low, gain, high = result.gain()
    display.console.print(display.table())
    display.console.print(
        f"\n{result.num_calls} calls, {result.num_thumbs} thumbs ({result.num_up} up)"
        f"{', shuffled' if result.name == 'shuffled' else ''}: "
        f"held-out reward {result.before.mean:.3f} → {result.after.mean:.3f}, gained {gain:.3f} ({low:.3f} to {high:.3f}), "
        f"{result.seconds:.0f} s (seed {result.seed}).\n"
        f"The picture:      {RESULTS}/feedback.png\n"
        f"The figures:      {RESULTS}/{result.name}-{result.seed}.json\n"
        f"What taught:      .venv/bin/slipstream --home {HOME} psql -f examples/sql/trained_by_version.sql  (after `up`)",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
