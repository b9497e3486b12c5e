"""A round of a product's traffic: each prompt is asked once, and a share of the answers gets a thumb."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from openai import AsyncOpenAI

from examples.feedback.program import answer, give_thumb
from examples.feedback.users import shuffled, who_speaks
from examples.orders.task import Prompt, prompts, score

CALLS_PER_ROUND = 160
SHARE = 0.3  # of the calls get a thumb
THUMBS_PER_ROUND = round(CALLS_PER_ROUND * SHARE)


@dataclass(frozen=True, slots=True)
class Round:
    """Example: 160 calls of which 50 were answered right, and 48 thumbs of which 15 were up."""

    rewards: tuple[float, ...]  # what each answer deserved, said or not
    thumbs: tuple[bool, ...]  # what was said
    num_tokens: int

    @property
    def num_calls(self) -> int:
        return len(self.rewards)


async def serve(client: AsyncOpenAI, prompts: Sequence[Prompt], *, seed: int, is_shuffled: bool) -> Round:
    """Ask every prompt once, all at a time; then the users who speak give their thumbs."""
    rng = random.Random(seed)
    answers = await asyncio.gather(
        *(answer(client, prompt, seed * 100_003 + index) for index, prompt in enumerate(prompts))
    )
    rewards = [score(each.text, prompt.expected) for each, prompt in zip(answers, prompts, strict=True)]
    judged = who_speaks(len(answers), SHARE, rng)
    thumbs = [rewards[index] == 1.0 for index in judged]
    said = shuffled(thumbs, rng) if is_shuffled else thumbs
    await asyncio.gather(
        *(
            give_thumb(client, answers[index].reply_id, is_up=is_up)
            for index, is_up in zip(judged, said, strict=True)
        )
    )
    return Round(tuple(rewards), tuple(said), sum(each.num_tokens for each in answers))


def thumbs_alone(
    seed: int, num_rounds: int, *, is_shuffled: bool
) -> Callable[[AsyncOpenAI, int], Awaitable[Round]]:
    """How a product without groups practises: no prompt is ever asked twice."""
    training = prompts(seed, training=CALLS_PER_ROUND * num_rounds)[0]

    async def practise(client: AsyncOpenAI, round_index: int) -> Round:
        begin = CALLS_PER_ROUND * round_index
        batch = training[begin : begin + CALLS_PER_ROUND]
        return await serve(client, batch, seed=seed * 1000 + round_index + 1, is_shuffled=is_shuffled)

    return practise
