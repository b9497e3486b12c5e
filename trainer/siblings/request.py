"""What is asked of vLLM for a sibling: the original's messages and parameters, of which only those listed pass. Pure.

Invariant: nothing that the proxy refuses or cuts reaches vLLM from here either (docs/fields.md).
"""

from typing import Any

from ledger.siblings.originals import Original

CHAT = "/v1/chat/completions"
# What makes the prompt, and what the next token is drawn by. `seed` would make every sibling the same one.
_PASSING = frozenset({
    "add_generation_prompt", "add_special_tokens", "allowed_token_ids", "bad_words", "chat_template_kwargs",
    "continue_final_message", "documents", "frequency_penalty", "ignore_eos", "include_reasoning",
    "include_stop_str_in_output", "length_penalty", "logit_bias", "min_p", "min_tokens", "parallel_tool_calls",
    "presence_penalty", "prompt", "reasoning_effort", "repetition_detection", "repetition_penalty", "response_format",
    "skip_special_tokens", "spaces_between_special_tokens", "stop", "stop_token_ids", "structured_outputs", "suffix",
    "thinking_token_budget", "tool_choice", "tools", "top_k", "top_p", "truncate_prompt_tokens",
})  # fmt: skip
_CUT_WHERE_EXPLORED = frozenset({"top_p", "top_k", "min_p"})


def request_of(original: Original, max_tokens: int) -> dict[str, Any]:
    """The body without `model` and messages: what the row keeps."""
    cut = _CUT_WHERE_EXPLORED if original.is_explored else frozenset()
    body = {name: value for name, value in original.request.items() if name in _PASSING - cut}
    if original.temperature is not None:
        body["temperature"] = original.temperature
    body["max_tokens"] = most_tokens(original, max_tokens)
    return body


def body_of(original: Original, request: dict[str, Any], model: str) -> dict[str, Any]:
    captured: dict[str, Any] = {"return_token_ids": True}
    if original.endpoint == CHAT:
        captured |= {"messages": original.messages, "logprobs": True, "top_logprobs": 0}
    else:
        captured |= {"logprobs": 0}
    return {**request, **captured, "model": model, "stream": False}


def most_tokens(original: Original, limit: int) -> int:
    asked = original.max_tokens
    return limit if asked is None or asked < 1 else min(asked, limit)


def shown_messages(original: Original) -> list[Any]:
    """What a scorer reads: a legacy prompt is a message of its user."""
    if original.endpoint == CHAT:
        return original.messages or []
    return [{"role": "user", "content": original.request.get("prompt")}]
