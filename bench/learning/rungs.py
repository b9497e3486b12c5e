"""The rungs: the same task, calls and share of judgements, asked so that a reward is compared with something else.

Invariant: a round has CALLS_PER_ROUND answers and THUMBS_PER_ROUND of them are judged, whatever the rung. Where there
are groups, whole groups are judged, which is the most that a group can be given: 6 of a round's 20.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from openai import AsyncOpenAI

from examples.feedback.course import Practise
from examples.feedback.traffic import CALLS_PER_ROUND, SHARE, THUMBS_PER_ROUND, Round, thumbs_alone
from examples.feedback.users import who_speaks
from examples.orders.program import MAX_TOKENS, MODEL, TEMPERATURE
from examples.orders.task import Prompt, prompts, score

ATTEMPTS = 8
PROMPTS_PER_ROUND = CALLS_PER_ROUND // ATTEMPTS


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer of a group, and how it is named in a reward: the reply's id, and the choice where there are several."""

    reply_id: str
    choice: int
    text: str


Ask = Callable[[AsyncOpenAI, Prompt, int], Awaitable[tuple[list[Attempt], int]]]  # a group, and its tokens


@dataclass(frozen=True, slots=True)
class Rung:
    """`baseline` is what the worker is expected to compare with; `asks` says how the calls look."""

    baseline: str
    asks: str
    groups_per_step: int
    practise: Callable[[int, int], Practise]  # seed, rounds


async def ask_once(
    client: AsyncOpenAI, prompt: Prompt, seed: int, *, n: int = 1, group: str | None = None
) -> tuple[list[Attempt], int]:
    reply = await client.chat.completions.create(
        model=MODEL,
        messages=list(prompt.messages),
        n=n,
        seed=seed,
        temperature=TEMPERATURE,
        max_tokens=MAX_TOKENS,
        extra_headers={"X-Group-Id": group, "X-Group-Size": str(ATTEMPTS)} if group else {},
    )
    attempts = [Attempt(reply.id, one.index, one.message.content or "") for one in reply.choices]
    return attempts, reply.usage.completion_tokens if reply.usage else 0


async def ask_as_choices(client: AsyncOpenAI, prompt: Prompt, seed: int) -> tuple[list[Attempt], int]:
    return await ask_once(client, prompt, seed, n=ATTEMPTS)


async def ask_with_group_id(client: AsyncOpenAI, prompt: Prompt, seed: int) -> tuple[list[Attempt], int]:
    return await _ask_often(client, prompt, seed, uuid4().hex)


async def ask_again(client: AsyncOpenAI, prompt: Prompt, seed: int) -> tuple[list[Attempt], int]:
    """As eight users who happen to ask the same: nothing says that they belong together."""
    return await _ask_often(client, prompt, seed, None)


async def _ask_often(
    client: AsyncOpenAI, prompt: Prompt, seed: int, group: str | None
) -> tuple[list[Attempt], int]:
    asked = [ask_once(client, prompt, seed * ATTEMPTS + index, group=group) for index in range(ATTEMPTS)]
    answers = await asyncio.gather(*asked)
    return [attempt for attempts, _ in answers for attempt in attempts], sum(tokens for _, tokens in answers)


async def serve_groups(client: AsyncOpenAI, batch: Sequence[Prompt], ask: Ask, seed: int) -> Round:
    """A round: all groups are asked at once, then some of them are judged, whole."""
    asked = [ask(client, prompt, seed * 10_007 + index) for index, prompt in enumerate(batch)]
    groups = await asyncio.gather(*asked)
    rewards = [
        [score(one.text, prompt.expected) for one in group]
        for prompt, (group, _) in zip(batch, groups, strict=True)
    ]
    judged = [
        (attempt, reward == 1.0)
        for index in who_speaks(len(batch), SHARE, random.Random(seed))
        for attempt, reward in zip(groups[index][0], rewards[index], strict=True)
    ]
    await asyncio.gather(*(_give_thumb(client, attempt, is_up) for attempt, is_up in judged))
    whole = tuple(reward for group in rewards for reward in group)
    return Round(whole, tuple(is_up for _, is_up in judged), sum(tokens for _, tokens in groups))


async def _give_thumb(client: AsyncOpenAI, attempt: Attempt, is_up: bool) -> None:
    body = {"reward": is_up, "choice": attempt.choice, "source": "user"}
    await client.post(f"/trajectories/{attempt.reply_id}/reward", body=body, cast_to=object)


def _grouped(ask: Ask) -> Callable[[int, int], Practise]:
    def for_seed(seed: int, num_rounds: int) -> Practise:
        training = prompts(seed, training=PROMPTS_PER_ROUND * num_rounds)[0]

        async def practise(client: AsyncOpenAI, round_index: int) -> Round:
            begin = PROMPTS_PER_ROUND * round_index
            batch = training[begin : begin + PROMPTS_PER_ROUND]
            return await serve_groups(client, batch, ask, seed * 1000 + round_index + 1)

        return practise

    return for_seed


def _alone(*, is_shuffled: bool) -> Callable[[int, int], Practise]:
    return lambda seed, num_rounds: thumbs_alone(seed, num_rounds, is_shuffled=is_shuffled)


_GROUPS_PER_STEP = round(PROMPTS_PER_ROUND * SHARE)
RUNGS = {
    "running": Rung("running", "each prompt once", THUMBS_PER_ROUND, _alone(is_shuffled=False)),
    "shuffled": Rung("running", "each prompt once, thumbs shuffled", THUMBS_PER_ROUND, _alone(is_shuffled=True)),
    "explicit": Rung("explicit_group", "8 times with the caller's X-Group-Id", _GROUPS_PER_STEP, _grouped(ask_with_group_id)),
    "choices": Rung("choices_group", "one call, n = 8", _GROUPS_PER_STEP, _grouped(ask_as_choices)),
    "prompt": Rung("prompt_group", "8 times, untagged", _GROUPS_PER_STEP, _grouped(ask_again)),
}  # fmt: skip
