"""How much one request may ask for, checked before vLLM sees it. Each refusal names the field, the limit, its setting."""

import json
import math
from typing import Any

from proxy.errors import InvalidRequestError
from proxy.settings import ProxySettings


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
    value = _number(values.get(name))
    if value is not None and not 0 <= value <= settings.max_logprobs:
        raise InvalidRequestError(
            f"'{name}' must be from 0 to {settings.max_logprobs} (SLIPSTREAM_MAX_LOGPROBS).", param=name
        )


def checked_max_tokens(values: dict[str, Any], *names: str, settings: ProxySettings) -> int | None:
    """The first of these fields that holds a number. Above the limit is refused: cutting it would surprise."""
    first: int | None = None
    for name in names:
        value = _number(values.get(name))
        if value is None or value == -math.inf:  # vLLM says what is wrong with it
            continue
        if value > settings.max_tokens:
            raise InvalidRequestError(
                f"'{name}' must be at most {settings.max_tokens} (SLIPSTREAM_MAX_TOKENS).", param=name
            )
        first = int(value) if first is None else first
    return first


def _number(value: Any) -> float | None:
    """As vLLM reads it: "12" and 12.0 are integers to pydantic."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.inf if isinstance(value, int) else None
    return None if math.isnan(number) else number


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
