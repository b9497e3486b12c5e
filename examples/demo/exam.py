"""An exam: the held-out prompts, answered by the live version and scored; nothing of it is trained."""

from collections.abc import Sequence

from openai import AsyncOpenAI

from examples.demo.display import Display
from examples.demo.stack import StackFailedError
from examples.demo.statistics import score_of
from examples.orders.program import examine
from examples.orders.task import Prompt

EXAM_CHOICES = 4


async def hold_exam(
    client: AsyncOpenAI, heldout: Sequence[Prompt], version: int, seed: int, display: Display
) -> int:
    """Fill the version's row; every reply must come from the version that is live. Returns the tokens."""
    num_replies = len(heldout) * EXAM_CHOICES
    display.say(f"examining version {version} on held-out prompts", f"waits for {num_replies} replies")
    attempts, tokens = await examine(client, heldout, num_choices=EXAM_CHOICES, seed=777 + seed)
    answered = {each.version for each in attempts}
    if answered != {version}:
        raise StackFailedError(f"version {version} is live, but {sorted(answered)} answered the exam")
    row = display.row(version)
    row.exam, row.seconds = score_of(attempts), display.seconds()
    return tokens
