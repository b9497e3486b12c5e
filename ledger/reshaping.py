"""Whether a call's tokens were drawn from another distribution than the model's own at its temperature. Pure.

vLLM cuts (top_p, top_k, min_p), pushes (penalties, biases) or forbids tokens (grammars, forced tools, token lists) before it
draws, and the recorded logprobs are of what is left. Fields that only end an answer (stop, max_tokens) are none of these.
"""

from collections.abc import Mapping
from typing import Any

# What changes no distribution, by field of the request; null and false never do.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "min_tokens": (0,),
    "thinking_token_budget": (),
    "structured_outputs": ({},),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto", "none"),
}
RESHAPING_FIELDS = tuple(_NEUTRAL)  # beside top_p and top_k, which have columns of their own


def is_reshaped(top_p: float | None, top_k: int | None, request: Mapping[str, Any]) -> bool:
    """Example: top_p 0.9, or {"response_format": {"type": "json_object"}}; not top_p 1, nor {"tool_choice": "auto"}."""
    if top_p not in (None, 1) or top_k not in (None, 0, -1):
        return True
    return any(request.get(name) not in (None, False, *neutral) for name, neutral in _NEUTRAL.items())
