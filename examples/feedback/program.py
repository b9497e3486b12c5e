"""A product on the openai SDK: it answers each message once, and passes on the thumb that a user may give.

It knows nothing of Slipstream but its base URL and that a reply's own `id` can be rewarded. No groups, no headers.
"""

from dataclasses import dataclass

from openai import AsyncOpenAI

from examples.orders.program import MAX_TOKENS, MODEL, TEMPERATURE
from examples.orders.task import Prompt


@dataclass(frozen=True, slots=True)
class Answer:
    """What a user got to see; `reply_id` is all that a thumb needs."""

    reply_id: str
    text: str
    num_tokens: int


async def answer(client: AsyncOpenAI, prompt: Prompt, seed: int) -> Answer:
    """One call, one sample. The seed only makes runs repeatable."""
    reply = await client.chat.completions.create(
        model=MODEL,
        messages=list(prompt.messages),
        temperature=TEMPERATURE,
        max_tokens=MAX_TOKENS,
        seed=seed,
    )
    num_tokens = reply.usage.completion_tokens if reply.usage else 0
    return Answer(reply.id, reply.choices[0].message.content or "", num_tokens)


async def give_thumb(client: AsyncOpenAI, reply_id: str, *, is_up: bool) -> None:
    """`POST /v1/trajectories/{reply's id}/reward` with true or false."""
    await client.post(
        f"/trajectories/{reply_id}/reward", body={"reward": is_up, "source": "user"}, cast_to=object
    )
