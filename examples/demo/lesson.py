"""What the demo does with a running stack: exam, then rounds of practice, each followed by a version and an exam.

A round whose groups all had equal rewards teaches nothing: its step is skipped, no version is made, and the next
round goes on.
"""

import time
from pathlib import Path
from statistics import mean
from typing import TypeVar

from openai import AsyncOpenAI

from examples.demo.display import Display
from examples.demo.exam import hold_exam
from examples.demo.result import Result
from examples.demo.stack import StackFailedError
from examples.demo.versions import Versions
from examples.orders.program import MAX_TOKENS, MODEL, TEMPERATURE, practise
from examples.orders.task import prompts

PROMPTS_PER_STEP = 8
NUM_CHOICES = 8
SPARE_ROUNDS = 6  # rounds that may teach nothing
LOG = Path(".slipstream/demo/logs/worker.log")
Item = TypeVar("Item")


def batch_of(prompts: list[Item], round_index: int, size: int) -> list[Item]:
    """The prompts of a round; when all were used they come again."""
    begin = size * round_index
    return [prompts[index % len(prompts)] for index in range(begin, begin + size)]


class Lesson:
    """One run of the demo against `base_url`."""

    def __init__(self, base_url: str, seed: int, num_steps: int, display: Display) -> None:
        self._client = AsyncOpenAI(base_url=base_url, api_key="demo", timeout=300.0)
        self._seed, self._num_steps, self._display = seed, num_steps, display
        self._training, self._heldout = prompts(seed)
        self._versions = Versions(self._client, MODEL, display, LOG)
        self._tokens = 0

    async def run(self) -> Result:
        await self._exam()
        for round_index in range(self._num_steps + SPARE_ROUNDS):
            if self._versions.live == self._num_steps:
                break
            await self._practise(round_index)
            if await self._versions.next_is_published():
                await self._versions.wait_until_served()
                await self._exam()
        return self._result()

    async def _exam(self) -> None:
        self._tokens += await hold_exam(
            self._client, self._heldout, self._versions.live, self._seed, self._display
        )

    async def _practise(self, round_index: int) -> None:
        display = self._display
        batch = batch_of(self._training, round_index, PROMPTS_PER_STEP)
        display.step = self._versions.live + 1
        display.say(
            "practising: asks, scores, posts rewards", f"waits for {len(batch) * NUM_CHOICES} replies"
        )
        started = time.monotonic()
        attempts, tokens = await practise(
            self._client, batch, num_choices=NUM_CHOICES, seed=self._seed * 1000 + round_index + 1
        )
        display.tokens_per_second = tokens / (time.monotonic() - started)
        rewards = [each.reward for each in attempts]
        display.reward = mean(rewards)
        display.row(self._versions.live).practised += rewards
        self._tokens += tokens

    def _result(self) -> Result:
        rows = [row for _, row in sorted(self._display.rows.items())]
        before, after = rows[0].exam, rows[-1].exam
        if before is None or after is None:
            raise StackFailedError("an exam is missing")
        return Result(
            seed=self._seed,
            steps=self._versions.live,
            heldout_before=before.mean,
            heldout_after=after.mean,
            ci95_before=(before.low, before.high),
            ci95_after=(after.low, after.high),
            versions=[
                {"version": row.version, "heldout": row.exam and row.exam.mean, "practice": row.practice}
                for row in rows
            ],
            tokens=self._tokens,
            seconds=self._display.seconds(),
            sampling={"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS},
            heldout_prompts=len(self._heldout),
            heldout_sentences=before.num_sentences,
        )
