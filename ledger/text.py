"""Text and JSON that Postgres cannot hold (U+0000, lone surrogates, NaN, Infinity) is stored reversibly.

U+001A, the SUBSTITUTE character, escapes: U+001A and four hex digits stand for one code unit (so U+001A itself is
written U+001A 001a), and the string U+001A NaN (Infinity, -Infinity) stands for that number.
`from_storable` undoes `to_storable` exactly, and text without such characters is stored as it is.
"""

import hashlib
import json
import math
import re
from typing import Any

ESCAPE = "\x1a"
_UNSTORABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")
_NUMBERS = {f"{ESCAPE}{name}": float(name) for name in ("NaN", "Infinity", "-Infinity")}


def to_storable_text(value: str) -> str:
    if not _UNSTORABLE.search(value):
        return value
    return _UNSTORABLE.sub(lambda found: f"{ESCAPE}{ord(found.group()):04x}", value)


def from_storable_text(value: str) -> str:
    if ESCAPE not in value:
        return value
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), value)


def to_storable(value: Any) -> Any:
    """A JSON value (keys included) as jsonb can hold it."""
    if isinstance(value, str):
        return to_storable_text(value)
    if isinstance(value, dict):
        return {to_storable_text(key): to_storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_storable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return ESCAPE + ("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    return value


def from_storable(value: Any) -> Any:
    """The JSON value that `to_storable` was given."""
    if isinstance(value, str):
        return _NUMBERS[value] if value in _NUMBERS else from_storable_text(value)
    if isinstance(value, dict):
        return {from_storable_text(key): from_storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_storable(item) for item in value]
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
    return None if value is None else json.dumps(to_storable(value), allow_nan=False)
