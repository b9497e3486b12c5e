"""A course: exam, then rounds of traffic with feedback, each followed by the version that it made and an exam.

The number of rounds, and so of calls, is fixed: a round that teaches nothing makes no version, and its calls count.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import mean

from openai import AsyncOpenAI

from examples.demo.display import Display
from examples.demo.exam import hold_exam
from examples.demo.stack import StackFailedError
from examples.demo.versions import Versions
from examples.feedback.result import Examined, Result
from examples.feedback.traffic import Round
from examples.orders.program import MODEL
from examples.orders.task import prompts

Practise = Callable[[AsyncOpenAI, int], Awaitable[Round]]  # client, round -> what happened


class Course:
    """One run against `base_url`."""

    def __init__(self, base_url: str, seed: int, display: Display, log: Path) -> None:
        self._client = AsyncOpenAI(base_url=base_url, api_key="any", timeout=300.0)
        self._seed, self._display = seed, display
        self._heldout = prompts(seed)[1]
        self._versions = Versions(self._client, MODEL, display, log)
        self._num_calls, self._num_thumbs, self._num_up = 0, 0, 0
        self._exams: list[Examined] = []

    async def run(self, practise: Practise, num_rounds: int, name: str) -> Result:
        await self._exam()
        for round_index in range(num_rounds):
            await self._practise(practise, round_index)
            if await self._versions.next_is_published():
                await self._versions.wait_until_served()
                await self._exam()
        return Result(
            name=name,
            seed=self._seed,
            num_calls=self._num_calls,
            num_thumbs=self._num_thumbs,
            num_up=self._num_up,
            exams=tuple(self._exams),
            seconds=round(self._display.seconds(), 1),
        )

    async def _exam(self) -> None:
        version = self._versions.live
        await hold_exam(self._client, self._heldout, version, self._seed, self._display)
        exam = self._display.row(version).exam
        if exam is None:
            raise StackFailedError(f"version {version} was not examined")
        self._exams.append(Examined(version, self._num_calls, exam))

    async def _practise(self, practise: Practise, round_index: int) -> None:
        display = self._display
        display.step = self._versions.live + 1
        display.say("serving calls; some users give a thumb", f"round {round_index + 1}")
        started = time.monotonic()
        done = await practise(self._client, round_index)
        display.tokens_per_second = done.num_tokens / (time.monotonic() - started)
        display.reward = mean(done.rewards)
        display.row(self._versions.live).practised += done.rewards
        self._num_calls += done.num_calls
        self._num_thumbs += len(done.thumbs)
        self._num_up += sum(done.thumbs)
