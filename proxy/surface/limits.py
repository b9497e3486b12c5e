"""How much one request may ask for, checked before vLLM sees it. Each refusal names the field, the limit, its setting."""

import json
from collections.abc import Iterator
from typing import Any

from proxy.errors import InvalidRequestError
from proxy.settings import ProxySettings

_MEDIA_TYPES = {"image_url", "input_image", "image", "image_embeds", "video_url", "video", "audio_url", "input_audio",
                "input_file", "file", "document"}  # fmt: skip


def checked_choices(values: dict[str, Any], settings: ProxySettings, num_prompts: int = 1) -> int:
    """`n`, from 1 to the limit (all prompts of a legacy completion together)."""
    n = values.get("n")
    if n is None:
        n = 1
    limit = settings.max_choices
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= limit:
        raise InvalidRequestError(
            f"'n' must be an integer from 1 to {limit} (SLIPSTREAM_MAX_CHOICES).", param="n"
        )
    if n * num_prompts > limit:
        raise InvalidRequestError(
            f"{num_prompts} prompts with n = {n} make more than {limit} choices (SLIPSTREAM_MAX_CHOICES): send fewer "
            "prompts a call.",
            param="prompt",
        )
    return n


def checked_logprobs(values: dict[str, Any], name: str, settings: ProxySettings) -> None:
    value = values.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and not -1 < value <= settings.max_logprobs:
        raise InvalidRequestError(
            f"'{name}' must be from 0 to {settings.max_logprobs} (SLIPSTREAM_MAX_LOGPROBS).", param=name
        )


def checked_max_tokens(values: dict[str, Any], *names: str, settings: ProxySettings) -> int | None:
    """The first of these fields that holds a number. Above the limit is refused: cutting it would surprise."""
    for name in names:
        value = values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if value > settings.max_tokens:
            raise InvalidRequestError(
                f"'{name}' must be at most {settings.max_tokens} (SLIPSTREAM_MAX_TOKENS).", param=name
            )
        return value
    return None


def check_stop(values: dict[str, Any], name: str, settings: ProxySettings) -> None:
    value = values.get(name)
    if isinstance(value, list) and len(value) > settings.max_stops:
        raise InvalidRequestError(
            f"'{name}' may hold at most {settings.max_stops} strings (SLIPSTREAM_MAX_STOPS).", param=name
        )


def check_tools(values: dict[str, Any], settings: ProxySettings) -> None:
    tools = values.get("tools")
    if tools and len(json.dumps(tools)) > settings.max_tool_bytes:
        raise InvalidRequestError(
            f"'tools' is larger than {settings.max_tool_bytes} bytes (SLIPSTREAM_MAX_TOOL_BYTES): describe them more "
            "briefly.",
            param="tools",
        )


def check_media(messages: Any, name: str, settings: ProxySettings) -> None:
    """A model server that fetches addresses for strangers reaches into its own network (CVE-2026-24779)."""
    if settings.allows_media:
        return
    for i, part_type in _part_types(messages):
        if part_type in _MEDIA_TYPES:
            raise InvalidRequestError(
                f"'{name}[{i}]' holds a part of type '{part_type}': this server answers text only (an operator with a "
                "multimodal model sets SLIPSTREAM_ALLOWS_MEDIA=true).",
                param=name,
            )


def _part_types(messages: Any) -> Iterator[tuple[int, str]]:
    for i, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict):
                yield i, str(part.get("type"))
                yield from ((i, key) for key in part.keys() & _MEDIA_TYPES)
        if isinstance(message, dict) and isinstance(message.get("type"), str):
            yield i, message["type"]  # an input item of a response
