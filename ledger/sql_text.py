"""Values as the text that Postgres reads: cells of COPY, items of arrays, parameters of statements that cast them."""

from collections.abc import Callable, Iterable, Sequence
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


def copied(rows: Iterable[Sequence[Any]]) -> bytes:
    """Rows in COPY's text format, one behind the other. Bytes are UTF-8.

    Separators are at first bytes that UTF-8 never has: so all cells are escaped at once, a tenth of one by one.
    """
    lines = [
        b"\xfe".join(
            [
                b"\xff" if value is None else value if type(value) is bytes else _CELLS[type(value)](value)
                for value in row
            ]
        )
        for row in rows
    ]
    text = b"\xfd".join([*lines, b""])
    for plain, escaped in _ESCAPES:
        text = text.replace(plain, escaped)
    return text


def _quoted(value: str) -> bytes:
    return b'"%b"' % value.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')


_PLAIN: dict[type[Any], Callable[[Any], bytes]] = {
    bool: {True: b"t", False: b"f"}.__getitem__,
    int: b"%d".__mod__,
    float: lambda value: repr(value).encode(),
    UUID: lambda value: b"%032x" % value.int,
}
_CELLS = _Forms({**_PLAIN, str: str.encode, datetime: lambda value: value.isoformat().encode()})
_ESCAPES = (
    (b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\t", b"\\t"), (b"\r", b"\\r"),
    (b"\xfe", b"\t"), (b"\xff", b"\\N"), (b"\xfd", b"\n"),
)  # fmt: skip
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
