"""`make demo`: the whole loop on the embedded stack, from an untrained adapter to a picture.

1 start the stack   2 examine version 0 on held-out prompts   3 practise, reward, wait for the next version, again
4 examine           5 print the table, draw reward.png, write result.json
"""

import argparse
import asyncio
import sys
from pathlib import Path

from examples.demo.chart import draw
from examples.demo.display import Display
from examples.demo.exam import EXAM_CHOICES
from examples.demo.lesson import PROMPTS_PER_STEP, Lesson
from examples.demo.result import Result
from examples.demo.stack import StackFailedError, forget_last_run, running_stack
from slipstream.errors import UsageError

HOME = Path(".slipstream/demo")
IMPROVEMENT = 0.30
LEARNING = {
    "SLIPSTREAM_POLICY": "orders",
    "SLIPSTREAM_LEARNING_RATE": "3e-4",
    "SLIPSTREAM_STEP_GROUPS": str(PROMPTS_PER_STEP),
    "SLIPSTREAM_STEP_MIN_TOKENS": "0",
    "SLIPSTREAM_MIN_SECONDS_BETWEEN_VERSIONS": "0",
    "SLIPSTREAM_TICK_SECONDS": "1",
}


def main() -> int:
    options = _options()
    with Display(num_steps=options.steps) as display:
        try:
            forget_last_run(HOME)
            with running_stack(HOME, LEARNING | {"SLIPSTREAM_SEED": str(options.seed)}, display) as base_url:
                result = asyncio.run(Lesson(base_url, options.seed, options.steps, display).run())
        except (StackFailedError, UsageError) as error:
            display.console.print(str(error), style="red", markup=False)
            return 1
    result.write(HOME / "result.json")
    _draw(display, result)
    _tell(display, result)
    return 0 if result.has_improved(IMPROVEMENT) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=0, help="order of prompts, sampling and LoRA initialisation"
    )
    parser.add_argument("--steps", type=int, default=6, help="how many versions to make")
    return parser.parse_args()


def _draw(display: Display, result: Result) -> None:
    draw(
        {row.version: row.exam for row in display.rows.values() if row.exam},
        {row.version: row.practice for row in display.rows.values() if row.practice is not None},
        f"Reading order numbers, seed {result.seed}: "
        f"{result.heldout_before:.2f} → {result.heldout_after:.2f} on held-out prompts",
        HOME / "reward.png",
    )


def _tell(display: Display, result: Result) -> None:
    display.console.print(display.table())
    display.console.print(
        f"\nHeld-out reward {result.heldout_before:.3f} → {result.heldout_after:.3f} after {result.steps} steps, "
        f"{result.seconds:.0f} s (seed {result.seed}, {result.heldout_prompts} prompts x {EXAM_CHOICES} replies).\n"
        f"The picture:      {HOME}/reward.png\n"
        f"The figures:      {HOME}/result.json\n"
        f"Keep it running:  SLIPSTREAM_POLICY={LEARNING['SLIPSTREAM_POLICY']} .venv/bin/slipstream --home {HOME} up\n"
        f"Query it then:    .venv/bin/slipstream --home {HOME} psql -f examples/sql/reward_by_version.sql",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
