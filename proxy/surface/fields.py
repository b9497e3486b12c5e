"""Which members of a request reach vLLM. docs/fields.md says it one by one, with the reason; a test compares both with
the fields that the pinned vLLM knows.

What vLLM does not know passes: it ignores it, and the client's bytes stay the client's.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from proxy.errors import InvalidRequestError

_CHAT, _RESPONSES = (
    "/v1/chat/completions",
    "/v1/responses",
)


class Rule(StrEnum):
    DROP = "drop"  # cut, and the call is served: it would change nothing that the client can see
    REFUSE = "refuse"  # 400: serving without it would answer another question


_DROPPED = (
    "cache_salt", "lora_adapter", "lora_name", "lora_path", "lora_request", "mm_payload",
    "priority", "request_id", "return_mm_kwargs", "return_token_offsets", "routed_experts_prompt_start", "session_id",
    "watermarking",
)  # fmt: skip
_REFUSED = {
    "chat_template": "the server's own template is used",
    "ec_transfer_params": "it reaches into the model server's memory",
    "kv_transfer_params": "it reaches into the model server's memory",
    "logits_processors": "code is not taken from requests",
    "media_io_kwargs": "it steers how media are decoded",
    "mm_processor_kwargs": "it steers how media are decoded",
    "previous_input_messages": "send the conversation as 'input'",
    "prompt_embeds": "send the prompt as text or token ids",
    "prompt_logprobs": "logprobs of prompts are not served",
    "use_beam_search": "sample with 'n' instead",
    "vllm_xargs": "it reaches into the model server",
    "guided_choice": "use 'response_format' or 'structured_outputs'",
    "guided_decoding_backend": "use 'response_format' or 'structured_outputs'",
    "guided_grammar": "use 'response_format' or 'structured_outputs'",
    "guided_json": "use 'response_format' or 'structured_outputs'",
    "guided_regex": "use 'response_format' or 'structured_outputs'",
    "guided_whitespace_pattern": "use 'response_format' or 'structured_outputs'",
}
_REFUSED_ON = {
    (_CHAT, "echo"): "it cannot be told apart from the answer",
    (_RESPONSES, "background"): "ask and wait for the answer, or stream it",
    (_RESPONSES, "conversation"): "repeat the conversation in 'input'",
    (
        _RESPONSES,
        "previous_response_id",
    ): "repeat the conversation in 'input': responses are not kept by the model server",
    (_RESPONSES, "prompt"): "send 'instructions' and 'input'",
}
_TEMPLATE_VARIABLES = frozenset(
    {"enable_thinking", "preserve_thinking", "reasoning_effort", "thinking", "thinking_budget"}
)


def rule_of(path: str, name: str) -> Rule | None:
    """None: it passes."""
    if name in _DROPPED:
        return Rule.DROP
    return Rule.REFUSE if _why_refused(path, name) else None


def _why_refused(path: str, name: str) -> str | None:
    return _REFUSED.get(name) or _REFUSED_ON.get((path, name))


def dropped_fields(path: str, values: Mapping[str, Any]) -> frozenset[str]:
    """The members that are cut. Raises InvalidRequestError for one that is refused. null and false ask for nothing."""
    for name, value in values.items():
        why = _why_refused(path, name)
        if why and value is not None and value is not False:
            raise InvalidRequestError(f"'{name}' is not accepted: {why}.", param=name)
    _check_template_variables(values.get("chat_template_kwargs"))
    return frozenset(name for name in _DROPPED if name in values)


def _check_template_variables(variables: Any) -> None:
    """They are arguments of the code that renders the prompt (CVE-2025-62426): only what models document passes."""
    if not isinstance(variables, dict):
        return
    for name, value in variables.items():
        if name not in _TEMPLATE_VARIABLES or not isinstance(value, bool | int | str | None):
            raise InvalidRequestError(
                f"'chat_template_kwargs.{name}' is not accepted: it may hold {', '.join(sorted(_TEMPLATE_VARIABLES))}.",
                param=f"chat_template_kwargs.{name}",
            )
