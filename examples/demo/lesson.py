"""What the demo does with a running stack: exam, then rounds of practice, each followed by a version and an exam.

A round whose groups all had equal rewards teaches nothing: its step is skipped, no version is made, and the next
round goes on.
"""

import asyncio
import time
from contextlib import suppress
from statistics import mean
from typing import Any, TypeVar

from openai import APIStatusError, AsyncOpenAI

from examples.demo.display import Display
from examples.demo.result import Result
from examples.demo.stack import StackFailedError
from examples.demo.statistics import score_of
from examples.orders.program import MAX_TOKENS, MODEL, TEMPERATURE, examine, practise
from examples.orders.task import prompts

PROMPTS_PER_STEP = 8
NUM_CHOICES = 8
EXAM_CHOICES = 4
SPARE_ROUNDS = 6  # rounds that may teach nothing
STEP_SECONDS = 300.0  # a step that takes longer is a failure, not patience
Item = TypeVar("Item")
SWITCH_SECONDS = 60.0
FINISHED = ("published", "skipped", "failed")
STATES = {
    "claimed": "builds samples from the claimed groups",
    "built": "computes gradients",
    "updated": "saves the adapter",
    "saved": "loads the adapter into vLLM and probes it",
}


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
        self._version = 0
        self._tokens = 0
        self._seen_steps: set[str] = set()

    async def run(self) -> Result:
        await self._exam()
        for round_index in range(self._num_steps + SPARE_ROUNDS):
            if self._version == self._num_steps:
                break
            await self._practise(round_index)
            if await self._next_step_is_published():
                await self._wait_until_served()
                await self._exam()
        return self._result()

    async def _exam(self) -> None:
        """Answer the held-out prompts; every reply must come from the version that is live."""
        display, num_replies = self._display, len(self._heldout) * EXAM_CHOICES
        display.say(
            f"examining version {self._version} on held-out prompts", f"waits for {num_replies} replies"
        )
        attempts, tokens = await examine(
            self._client, self._heldout, num_choices=EXAM_CHOICES, seed=777 + self._seed
        )
        answered = {each.version for each in attempts}
        if answered != {self._version}:
            raise StackFailedError(
                f"version {self._version} is live, but {sorted(answered)} answered the exam"
            )
        row = display.row(self._version)
        row.exam, row.seconds = score_of(attempts), display.seconds()
        self._tokens += tokens

    async def _practise(self, round_index: int) -> None:
        display = self._display
        batch = batch_of(self._training, round_index, PROMPTS_PER_STEP)
        display.step = self._version + 1
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
        display.row(self._version).practised += rewards
        self._tokens += tokens

    async def _next_step_is_published(self) -> bool:
        """Wait for the step that this round's groups make. False if it was skipped for want of a signal."""
        deadline = time.monotonic() + STEP_SECONDS
        while time.monotonic() < deadline:
            steps = (await self._client.get("/steps", cast_to=dict))["data"]
            ended = [
                each for each in steps if each["state"] in FINISHED and each["id"] not in self._seen_steps
            ]
            if ended:
                return self._ends_with(ended[0])
            state = steps[0]["state"] if steps and steps[0]["state"] not in FINISHED else ""
            self._display.say(
                f"training version {self._version + 1}", STATES.get(state, "waits for its groups")
            )
            await asyncio.sleep(0.5)
        raise StackFailedError(
            f"no step ended within {STEP_SECONDS:.0f} s; see .slipstream/demo/logs/worker.log"
        )

    async def _wait_until_served(self) -> None:
        """A proxy follows the ledger within a moment; until then the version before answers."""
        deadline = time.monotonic() + SWITCH_SECONDS
        while time.monotonic() < deadline:
            with suppress(APIStatusError):  # 503: a replica is being told
                ready = await self._client.get(str(self._client.base_url.join("/ready")), cast_to=dict)
                if ready["live"].get(MODEL) == self._version:
                    return
            await asyncio.sleep(0.2)
        raise StackFailedError(f"version {self._version} was not served within {SWITCH_SECONDS:.0f} s")

    def _ends_with(self, step: dict[str, Any]) -> bool:
        self._seen_steps.add(step["id"])
        if step["state"] == "failed":
            raise StackFailedError(f"the step of version {step['version']} failed: {step['reason']}")
        if step["state"] == "published":
            self._version = step["version"]
        return bool(step["state"] == "published")

    def _result(self) -> Result:
        rows = [row for _, row in sorted(self._display.rows.items())]
        before, after = rows[0].exam, rows[-1].exam
        if before is None or after is None:
            raise StackFailedError("an exam is missing")
        return Result(
            seed=self._seed,
            steps=self._version,
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
