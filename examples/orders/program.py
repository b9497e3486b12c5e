"""An ordinary program on the openai SDK: it reads order numbers out of customers' messages.

It knows nothing of Slipstream but its base URL, that a reply's `x-trajectory-id` can be rewarded, and that
`X-Turn-Type: side` keeps an exam out of training.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from openai import AsyncOpenAI

from examples.orders.task import Prompt, score

MODEL = "orders"
TEMPERATURE, MAX_TOKENS = 1.0, 8  # the same for practice and exams, before and after
EXAM_HEADERS = {"X-Turn-Type": "side"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One reply to one prompt, its reward, and the policy version that wrote it."""

    sentence: str
    expected: str
    text: str
    reward: float
    trajectory_id: str
    version: int


async def attempt(
    client: AsyncOpenAI,
    prompt: Prompt,
    *,
    num_choices: int,
    seed: int,
    model: str = MODEL,
    is_exam: bool = False,
) -> tuple[list[Attempt], int]:
    """Ask once for `num_choices` replies, score each, post its reward. Returns the attempts and their tokens."""
    raw = await client.chat.completions.with_raw_response.create(
        model=model,
        messages=list(prompt.messages),
        n=num_choices,
        seed=seed,
        extra_headers=EXAM_HEADERS if is_exam else {},
        temperature=TEMPERATURE,
        max_tokens=MAX_TOKENS,
    )
    reply = raw.parse()
    trajectory_ids = raw.headers["x-trajectory-id"].split(", ")
    attempts = [
        Attempt(
            sentence=prompt.sentence,
            expected=prompt.expected,
            text=choice.message.content or "",
            reward=score(choice.message.content or "", prompt.expected),
            trajectory_id=trajectory_ids[choice.index],
            version=int(raw.headers["x-model-version"]),
        )
        for choice in reply.choices
    ]
    metric = "heldout" if is_exam else "reward"
    await asyncio.gather(*(post_reward(client, each, metric) for each in attempts))
    return attempts, reply.usage.completion_tokens if reply.usage else 0


async def post_reward(client: AsyncOpenAI, judged: Attempt, metric: str) -> None:
    await client.post(
        f"/trajectories/{judged.trajectory_id}/reward",
        body={"reward": judged.reward, "metric": metric, "source": "program"},
        cast_to=object,
    )


async def practise(
    client: AsyncOpenAI, prompts: Sequence[Prompt], *, num_choices: int, seed: int
) -> tuple[list[Attempt], int]:
    """One round of traffic: all prompts at once, `num_choices` replies each, every reply rewarded."""
    return await _all(client, prompts, num_choices=num_choices, seed=seed, model=MODEL, is_exam=False)


async def examine(
    client: AsyncOpenAI, prompts: Sequence[Prompt], *, num_choices: int, seed: int, model: str = MODEL
) -> tuple[list[Attempt], int]:
    """Answer the held-out prompts with the same sampling; nothing of it is trained."""
    return await _all(client, prompts, num_choices=num_choices, seed=seed, model=model, is_exam=True)


async def _all(
    client: AsyncOpenAI, prompts: Sequence[Prompt], *, num_choices: int, seed: int, model: str, is_exam: bool
) -> tuple[list[Attempt], int]:
    answers = await asyncio.gather(
        *(
            attempt(
                client,
                prompt,
                num_choices=num_choices,
                seed=seed * 100_003 + index,
                model=model,
                is_exam=is_exam,
            )
            for index, prompt in enumerate(prompts)
        )
    )
    return [each for attempts, _ in answers for each in attempts], sum(tokens for _, tokens in answers)
