"""The probe: a fixed prompt of token ids and what the trainer itself says comes next, kept with the checkpoint.

A replica that serves the version must give its likeliest token the same logprob: that is how we know that it loaded
these weights and no others. The ids mean nothing; no user's prompt is ever in a checkpoint.
"""

from typing import Any

from trainer.policy_model import PolicyModel

PROBE_TOKENS = 16
NUM_TOP = 20
# Largest difference in nats by the trainer's number format. Two fp32 engines agree to 1e-5, and a first step of
# SmolLM2 moves this logprob by 1e-2: 1e-3 tells a version from its parent. bf16 cannot; it tells gross faults.
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.05}


def make_probe(model: PolicyModel) -> dict[str, Any]:
    """Example: {"prompt_ids": [11, 30, ...], "top": [[17, -0.91], [4, -1.38], ...], "dtype": "float32"}, likeliest first."""
    prompt_ids = probe_prompt(model.vocabulary_size)
    values, ids = model.next_token_logprobs(prompt_ids).topk(min(NUM_TOP, model.vocabulary_size))
    top = [[int(i), float(v)] for i, v in zip(ids, values, strict=True)]
    return {"prompt_ids": prompt_ids, "top": top, "dtype": model.dtype_name}


def tolerance_of(probe: dict[str, Any], chosen: float | None) -> float:
    """SLIPSTREAM_PROBE_TOLERANCE if it is set, else what the trainer's number format allows."""
    return chosen if chosen is not None else TOLERANCES[probe["dtype"]]


def probe_prompt(vocabulary_size: int) -> list[int]:
    return [(11 + 7919 * index) % vocabulary_size for index in range(PROBE_TOKENS)]
