"""LiteLLM's answers as the JSON of the routes. What it adds to every object and leaves empty is left out.

A delta's `content` stays where it is null: there are clients that die without the key.
"""

import json
from typing import Any

from proxy.external.child.calls import Asked

DONE = b"data: [DONE]\n\n"
_EMPTY = {"provider_specific_fields", "citations", "moderation", "obfuscation", "service_tier", "function_call",
          "tool_calls", "audio", "role", "reasoning_content", "annotations", "refusal", "usage"}  # fmt: skip
_PREFIXES = {"/v1/chat/completions": "chatcmpl-", "/v1/completions": "cmpl-"}


def json_of(answered: Any, asked: Asked) -> bytes:
    body = answered if isinstance(answered, dict) else answered.model_dump(mode="json", warnings=False)
    if prefix := _PREFIXES.get(asked.path):
        body = _without_empty({**body, "id": prefix + asked.call_id})  # the id that rewards may name
    return json.dumps(body, separators=(",", ":")).encode()


def event_of(item: Any, asked: Asked) -> bytes:
    data = json_of(item, asked)
    name = f"event: {_type_of(item)}\n".encode() if asked.names_events else b""
    return name + b"data: " + data + b"\n\n"


def _type_of(item: Any) -> str:
    kind = item.get("type") if isinstance(item, dict) else item.type
    return str(getattr(kind, "value", kind))


def _without_empty(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_empty(v) for k, v in value.items() if k not in _EMPTY or v not in (None, {})}
    return value
