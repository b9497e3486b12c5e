"""The probe: a fixed prompt of token ids and what the trainer itself says comes next, kept with the checkpoint.

A replica that serves the version must give its likeliest token the same logprob: that is how we know that it loaded
these weights and no others. The ids mean nothing; no user's prompt is ever in a checkpoint.
"""

from typing import Any

from trainer.policy_model import PolicyModel

PROBE_TOKENS = 16
NUM_TOP = 20


def make_probe(model: PolicyModel) -> dict[str, Any]:
    """Example: {"prompt_ids": [11, 30, ...], "top": [[17, -0.91], [4, -1.38], ...]}, likeliest first."""
    prompt_ids = probe_prompt(model.vocabulary_size)
    values, ids = model.next_token_logprobs(prompt_ids).topk(min(NUM_TOP, model.vocabulary_size))
    return {"prompt_ids": prompt_ids, "top": [[int(i), float(v)] for i, v in zip(ids, values, strict=True)]}


def probe_prompt(vocabulary_size: int) -> list[int]:
    return [(11 + 7919 * index) % vocabulary_size for index in range(PROBE_TOKENS)]
