"""Text and JSON that Postgres cannot hold (U+0000, lone surrogates, NaN, Infinity) is stored reversibly.

U+001A, the SUBSTITUTE character, escapes: U+001A and four hex digits stand for one code unit (so U+001A itself is
written U+001A 001a), and the string U+001A NaN (Infinity, -Infinity) stands for that number.
`from_storable` undoes `to_storable` exactly, and text without such characters is stored as it is.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from typing import Any

from msgspec.json import Encoder

ESCAPE = "\x1a"
_UNSTORABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")
_encode = Encoder().encode
_NUMBERS = {f"{ESCAPE}{name}": float(name) for name in ("NaN", "Infinity", "-Infinity")}


def to_storable_text(value: str) -> str:
    if value.isascii() and "\x00" not in value and ESCAPE not in value:
        return value
    if not _UNSTORABLE.search(value):
        return value
    return _UNSTORABLE.sub(lambda found: f"{ESCAPE}{ord(found.group()):04x}", value)


def from_storable_text(value: str) -> str:
    if ESCAPE not in value:
        return value
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), value)


def to_storable(value: Any) -> Any:
    """A JSON value (keys included) as jsonb can hold it."""
    return mapped(value, to_storable_text, _to_storable_leaf)


def from_storable(value: Any) -> Any:
    """The JSON value that `to_storable` was given."""
    return mapped(value, from_storable_text, _from_storable_leaf)


def mapped(value: Any, of_key: Callable[[str], str], of_leaf: Callable[[Any], Any]) -> Any:
    """A copy with every key and leaf mapped. A loop, because a request may be nested deeper than Python recurses."""
    root = [value]
    waiting: list[Any] = [root]
    while waiting:
        container = waiting.pop()
        for place in container if isinstance(container, dict) else range(len(container)):
            item = container[place]
            if isinstance(item, dict):
                container[place] = {of_key(key): held for key, held in item.items()}
                waiting.append(container[place])
            elif isinstance(item, list):
                container[place] = list(item)
                waiting.append(container[place])
            else:
                container[place] = of_leaf(item)
    return root[0]


def _to_storable_leaf(value: Any) -> Any:
    if isinstance(value, str):
        return to_storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ESCAPE + ("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    return value


def _from_storable_leaf(value: Any) -> Any:
    if isinstance(value, str):
        return _NUMBERS[value] if value in _NUMBERS else from_storable_text(value)
    return value


MAX_NAME_BYTES = 512


def to_name(value: str) -> str:
    """A caller's id as an index can hold it: beyond 512 bytes, its first 256 characters and its SHA-256."""
    stored = to_storable_text(value)
    encoded = stored.encode()
    if len(encoded) <= MAX_NAME_BYTES:
        return stored
    return f"{encoded[:256].decode(errors='ignore')}…sha256:{hashlib.sha256(encoded).hexdigest()}"


def to_json(value: Any) -> str | None:
    """A JSON value as the text of a jsonb; None stays SQL's NULL."""
    return None if value is None else to_json_bytes(value).decode()


def to_json_bytes(value: Any) -> bytes:
    """The same in UTF-8. Equal values give equal texts."""
    try:
        if is_storable(value):
            return _encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        pass  # a lone surrogate, an integer beyond 64 bits, deep nesting: rare, and the long way takes them
    return json.dumps(to_storable(value), allow_nan=False).encode()


def is_storable(value: Any) -> bool:
    """Whether jsonb holds it as it is, but for lone surrogates, which no encoder takes. Mostly it does."""
    items = [value]
    for item in items:  # grows meanwhile
        kind = type(item)
        if kind is str:
            if "\x00" in item or ESCAPE in item:
                return False
        elif kind is dict:
            items += item
            items += item.values()
        elif kind is list:
            items += item
        elif kind is float and not math.isfinite(item):
            return False
    return True
