"""The body as it came becomes `messages` and `request` when it is read: no call waits for that.

Invariant: these are the values that Python's json reads, NaN and lone surrogates included; what msgspec, which is
faster, does not take goes to it. A body that is no object stays as text.
"""

import json
from dataclasses import fields
from operator import attrgetter
from typing import Any

import msgspec

from ledger.records import CallRecord

_NAMES = tuple(field.name for field in fields(CallRecord))
_values = attrgetter(*_NAMES)
_read = msgspec.json.Decoder().decode


def derived(call: CallRecord) -> CallRecord:
    """The call with its messages and request, and without the bytes they were made from."""
    if call.raw_request is None:
        return call
    body = _body(call.raw_request)
    messages = _listed(body.pop(call.prompt_key, None)) if call.prompt_key else None
    values = dict(zip(_NAMES, _values(call), strict=True))
    return CallRecord(**values | {"messages": messages, "request": body, "raw_request": None})


def _listed(prompt: Any) -> list[Any] | None:
    """Such as the `input` of a response, which may be one string."""
    return prompt if prompt is None or isinstance(prompt, list) else [prompt]


def _body(raw: bytes) -> dict[str, Any]:
    try:
        body = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = _body_as_python_reads_it(raw)
    return body if isinstance(body, dict) else {"body": body}


def _body_as_python_reads_it(raw: bytes) -> Any:
    text = raw.decode("utf-8", "surrogateescape")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
