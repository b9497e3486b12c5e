"""What a user's program does: calls with several choices, and a reward for each. It knows nothing of training."""

import json
from typing import Any
from urllib.request import Request, urlopen

from tests.loop.stack import Stack

PROMPTS = ("Say a number between one and ten.", "Name a colour.", "Name an animal.", "Say hello.")


def post_reward(stack: Stack, target: str, body: dict[str, Any]) -> dict[str, Any]:
    request = Request(
        f"{stack.url}/v1/trajectories/{target}/reward",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urlopen(request, timeout=30) as reply:
        return dict(json.load(reply))


def give_lesson(stack: Stack, num_groups: int = 2, num_choices: int = 4, max_tokens: int = 6) -> set[str]:
    """Calls and their rewards, which differ inside each group. Returns the models that answered."""
    models = set()
    for prompt in PROMPTS[:num_groups]:
        reply = stack.client().chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}], n=num_choices, max_tokens=max_tokens,
            temperature=1.0,
        )  # fmt: skip
        models.add(reply.model)
        for choice in reply.choices:
            post_reward(stack, reply.id, {"reward": float(choice.index % 2), "choice": choice.index})
    return models
