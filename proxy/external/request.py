"""A request for another provider's model: understood as far as we record it, its fields by an allow-list.

LiteLLM takes its own steering (`api_base`, `api_key`, `fallbacks`, `mock_response`, …) from the same place as a request's
fields. Invariant: nothing reaches it that is not listed here, so no client decides where the operator's keys go.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from proxy.errors import InvalidRequestError, UnknownRouteError
from proxy.settings import ProxySettings
from proxy.surface import limits
from proxy.surface.chat import asked_of
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.request import Asked, ModelRequest

_SAMPLING = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "n",
             "seed", "stop", "max_tokens", "logit_bias"}  # fmt: skip
_COMMON = {"model", "stream", "stream_options", "user"}
FIELDS = {
    "/v1/chat/completions": _COMMON | _SAMPLING | {
        "messages", "audio", "function_call", "functions", "logprobs", "max_completion_tokens", "modalities",
        "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_retention", "reasoning",
        "reasoning_effort", "response_format", "safety_identifier", "service_tier", "store", "thinking", "tool_choice",
        "tools", "top_logprobs", "verbosity", "web_search_options",
    },
    "/v1/completions": _COMMON | _SAMPLING | {"best_of", "echo", "logprobs", "prompt", "suffix"},
    "/v1/responses": _COMMON | {
        "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "parallel_tool_calls",
        "previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "store",
        "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation",
    },
    "/v1/messages": {
        "model", "max_tokens", "messages", "stop_sequences", "stream", "system", "temperature", "thinking",
        "tool_choice", "tools", "top_k", "top_p",
    },
    "/v1/embeddings": {"model", "dimensions", "encoding_format", "input", "user"},
}  # fmt: skip
DROPPED = {"metadata"}  # ours: trajectory and group ids
_PROMPT_KEYS = {"/v1/chat/completions": "messages", "/v1/messages": "messages", "/v1/responses": "input"}
_ADDRESSES = {"url", "image_url", "file_url", "video_url", "audio_url"}
_MAYBE_ADDRESSES = {"data", "file_data", "file_id"}  # LiteLLM fetches these too, where they look like one
_ADDRESS = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE).match  # https://, s3://, //host


def understand_external(endpoint: Endpoint, document: Document, settings: ProxySettings) -> ModelRequest:
    """Raises InvalidRequestError, naming the field, for what may not reach a provider."""
    path, values = endpoint.path, document.values
    if path not in FIELDS:
        raise UnknownRouteError(
            f"{path} is not answered by external models: ask the policy, or another route."
        )
    _check_fields(path, values)
    _check_text(values)
    is_streamed = bool(values.get("stream"))
    if is_streamed and path == "/v1/messages":
        raise InvalidRequestError(
            "External models answer /v1/messages whole, not as a stream: leave 'stream' out, or stream from "
            "/v1/chat/completions.",
            param="stream",
        )
    _check_addresses(values, settings)
    limits.check_tools(values, settings)
    num_choices = limits.checked_choices(values, settings) if "n" in FIELDS[path] else 1
    has_choices = path in {"/v1/chat/completions", "/v1/completions"}
    return ModelRequest(
        document,
        is_streamed=is_streamed,
        asked=asked_of(document, logprobs=bool(values.get("logprobs")))
        if has_choices
        else Asked(logprobs=True),
        prompt_key=_PROMPT_KEYS.get(path),
        num_choices=num_choices * _num_prompts(path, values),
        dropped=frozenset(values.keys() - FIELDS[path]),
        max_tokens=limits.checked_max_tokens(
            values, "max_completion_tokens", "max_tokens", "max_output_tokens", settings=settings
        ),
    )


def _num_prompts(path: str, values: dict[str, Any]) -> int:
    prompt = values.get("prompt")
    is_several = path == "/v1/completions" and isinstance(prompt, list) and prompt
    return len(prompt) if is_several and isinstance(prompt[0], str | list) else 1  # type: ignore[arg-type, index]


def _check_fields(path: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name not in FIELDS[path] | DROPPED and value is not None and value is not False:
            raise InvalidRequestError(
                f"'{name}' is not passed on to external models (docs/http.md lists what is): leave it out.",
                param=name[:128],
            )


def _check_text(values: dict[str, Any]) -> None:
    """Providers' clients write the body anew, which is not possible for everything that may stand in one."""
    try:
        json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(
            "External models read neither lone surrogates, nor bytes that are no UTF-8, nor NaN, nor Infinity: take them "
            "out."
        ) from error


def _check_addresses(values: dict[str, Any], settings: ProxySettings) -> None:
    """LiteLLM fetches some addresses itself, from inside the operator's network."""
    if settings.allows_media:
        return
    for key in ("messages", "input", "system"):
        if any(not address.startswith("data:") for address in _addresses(values.get(key))):
            raise InvalidRequestError(
                f"'{key}' holds an address: send the file inline, as a data: URL (an operator who lets addresses be "
                "fetched sets SLIPSTREAM_ALLOWS_MEDIA=true).",
                param=key,
            )


def _addresses(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _addresses(item)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str) and _is_address(key, inner):
                yield inner
            elif key not in {"text", "arguments", "input"}:
                yield from _addresses(inner)


def _is_address(key: str, text: str) -> bool:
    return key in _ADDRESSES or (key in _MAYBE_ADDRESSES and _ADDRESS(text) is not None)
