"""A course: exam, then rounds of traffic with feedback, each followed by the version that it made and an exam.

The number of rounds, and so of calls, is fixed: a round that teaches nothing makes no version, and its calls count.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from types import MappingProxyType

from openai import AsyncOpenAI

from examples.demo.display import Display
from examples.demo.exam import hold_exam
from examples.demo.stack import StackFailedError, forget_last_run, running_stack
from examples.demo.versions import Versions
from examples.feedback.lineage import compared_with
from examples.feedback.result import Examined, Result
from examples.feedback.traffic import Round
from examples.orders.program import MODEL
from examples.orders.task import prompts

Practise = Callable[[AsyncOpenAI, int], Awaitable[Round]]  # client, round -> what happened
HOME = Path(".slipstream/feedback")
RESULTS = HOME / "results"
ROUNDS = 4
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Plan:
    """A run as it is meant: its name, which seed, how many rounds, and how many judged groups of each make a step."""

    name: str
    seed: int
    groups_per_step: int
    num_rounds: int = ROUNDS
    policy: str = MODEL  # whatever it is: the program's calls go to the default policy

    def settings(self) -> dict[str, str]:
        """What the stack is told; all else is as it is by default."""
        return {
            "SLIPSTREAM_POLICY": self.policy,
            "SLIPSTREAM_SEED": str(self.seed),
            "SLIPSTREAM_LEARNING_RATE": "3e-4",
            "SLIPSTREAM_STEP_GROUPS": str(self.groups_per_step),
            "SLIPSTREAM_STEP_MAX_GROUPS": str(self.groups_per_step),
            "SLIPSTREAM_STEP_MIN_TOKENS": "0",
            "SLIPSTREAM_MIN_SECONDS_BETWEEN_VERSIONS": "0",
            "SLIPSTREAM_GROUP_GRACE_SECONDS": "1",
            "SLIPSTREAM_TICK_SECONDS": "1",
        }


def take(plan: Plan, practise: Practise, display: Display, more: Mapping[str, str] = NOTHING) -> Result:
    """A run from version 0 on a stack of its own, told `more` settings. Raises StackFailedError, UsageError."""
    forget_last_run(HOME, frozenset({RESULTS.name}))
    with running_stack(HOME, plan.settings() | dict(more), display) as base_url:
        result = asyncio.run(Course(base_url, plan, display).run(practise))
        return replace(result, compared_with=compared_with(HOME))


class Course:
    """One run against `base_url`."""

    def __init__(self, base_url: str, plan: Plan, display: Display) -> None:
        self._client = AsyncOpenAI(base_url=base_url, api_key="any", timeout=300.0, max_retries=5)
        self._plan, self._display = plan, display
        self._heldout = prompts(plan.seed)[1]
        self._versions = Versions(self._client, plan.policy, display, HOME / "logs" / "worker.log")
        self._num_calls, self._num_thumbs, self._num_up = 0, 0, 0
        self._exams: list[Examined] = []

    async def run(self, practise: Practise) -> Result:
        await self._exam()
        for round_index in range(self._plan.num_rounds):
            await self._practise(practise, round_index)
            if await self._versions.next_is_published():
                await self._versions.wait_until_served()
                await self._exam()
        return Result(
            name=self._plan.name,
            seed=self._plan.seed,
            num_calls=self._num_calls,
            num_thumbs=self._num_thumbs,
            num_up=self._num_up,
            exams=tuple(self._exams),
            seconds=round(self._display.seconds(), 1),
        )

    async def _exam(self) -> None:
        version = self._versions.live
        await hold_exam(self._client, self._heldout, version, self._plan.seed, self._display)
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
