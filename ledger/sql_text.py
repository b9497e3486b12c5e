"""Values as the text that Postgres reads: cells of COPY, items of arrays, parameters of statements that cast them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg


class _Forms(dict[type[Any], Callable[[Any], bytes]]):
    """How a value of each type is written; an enum is written as what it is made of."""

    def __missing__(self, kind: type[Any]) -> Callable[[Any], bytes]:
        found = next((write for known, write in self.items() if issubclass(kind, known)), None)
        if found is None:
            raise TypeError(f"{kind.__name__} is no value of a column")
        self[kind] = found
        return found


def parameter(value: Any) -> bytes | None:
    """A parameter; a list as an array. Raises psycopg's DataError on U+0000, where libpq would end it."""
    if value is None:
        return None
    written = _array(value) if isinstance(value, list | tuple) else _PARAMETERS[type(value)](value)
    if b"\0" in written:
        raise psycopg.DataError("U+0000 is no text in Postgres")
    return written


def _array(items: list[Any] | tuple[Any, ...]) -> bytes:
    return b"{%b}" % b",".join([_ITEMS[type(item)](item) for item in items])


def _escaped(value: bytes) -> bytes:
    if b"\\" in value:
        value = value.replace(b"\\", b"\\\\")
    if b"\n" in value or b"\t" in value or b"\r" in value:
        value = value.replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")
    return value


def _quoted(value: str) -> bytes:
    return b'"%b"' % value.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')


_PLAIN: dict[type[Any], Callable[[Any], bytes]] = {
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    UUID: lambda value: b"%032x" % value.int,
}
CELLS = _Forms(
    {
        **_PLAIN,
        type(None): lambda _: b"\\N",
        bytes: _escaped,
        str: lambda value: _escaped(value.encode()),
        datetime: lambda value: value.isoformat().encode(),
    }
)
_ITEMS = _Forms(
    {
        **_PLAIN,
        type(None): lambda _: b"NULL",
        bytes: lambda value: b'"\\\\x%b"' % value.hex().encode(),
        str: _quoted,
        datetime: lambda value: b'"%b"' % value.isoformat().encode(),
    }
)
_PARAMETERS = _Forms(
    {
        **_PLAIN,
        bytes: lambda value: b"\\x%b" % value.hex().encode(),
        str: str.encode,
        datetime: lambda value: value.isoformat().encode(),
    }
)
