"""Many rows in one statement. A row that exists stays as it is.

`insert_rows`: one array parameter a column, unnested by Postgres; works the same on a sync and an async connection,
without server-side state. `copy_rows`: COPY, the cheapest way for wide rows, which an existing key refuses; then they
are inserted instead.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from math import isfinite
from typing import Any
from uuid import UUID

import psycopg
from msgspec import json
from psycopg.adapt import Dumper
from sqlalchemy import Connection, Engine, Table, TextClause, event, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.exc import DBAPIError

from ledger.token_ids import TokenIds

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_BLOCK_BYTES = 64 << 10


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows (all with the same keys, which are column names), skipping those whose key exists."""
    if not rows:
        return
    columns = tuple(rows[0])
    values = {name: [row[name] for row in rows] for name in columns}
    connection.execute(_insert_statement(table, columns), values)


@cache
def _insert_statement(table: Table, columns: tuple[str, ...]) -> TextClause:
    types = {column.name: column.type for column in table.columns}
    sent, read = [], []
    for name in columns:
        kind = types[name].compile(dialect=_DIALECT)
        is_text = isinstance(types[name], ARRAY | JSONB)
        sent.append(f"CAST(:{name} AS {'text' if is_text else kind}[])")
        read.append(f"CAST({name} AS {kind})" if is_text else name)
    names = ", ".join(columns)
    return text(
        f"INSERT INTO {table.name} ({names}) SELECT {', '.join(read)}"  # noqa: S608 - names of our own tables
        f" FROM unnest({', '.join(sent)}) AS sent ({names}) ON CONFLICT DO NOTHING"
    )


def copy_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """As `insert_rows`, for rows that are almost always new. Bytes are text, storable and in UTF-8."""
    if not rows:
        return
    statement = f"COPY {table.name} ({', '.join(rows[0])}) FROM STDIN"
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    try:
        with driver.transaction(), driver.cursor() as cursor, cursor.copy(statement) as copy:
            for block in _blocks(rows):
                copy.write(block)
    except psycopg.errors.UniqueViolation:  # another process was on its way to write one of them
        insert_rows(
            connection, table, [{name: _as_text(value) for name, value in row.items()} for row in rows]
        )
    except psycopg.Error as error:
        raise DBAPIError.instance(statement, None, error, psycopg.Error, dialect=_DIALECT) from error


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _blocks(rows: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """The rows in COPY's text format, some at a time."""
    cells: list[bytes] = []
    num_bytes = 0
    for row in rows:
        line = [_CELLS[type(value)](value) for value in row.values()]
        cells += b"\t".join(line), b"\n"
        num_bytes += len(cells[-2])
        if num_bytes > _BLOCK_BYTES:
            yield b"".join(cells)
            cells, num_bytes = [], 0
    if cells:
        yield b"".join(cells)


def _escaped(value: bytes) -> bytes:
    if b"\\" in value:
        value = value.replace(b"\\", b"\\\\")
    if b"\n" in value or b"\t" in value or b"\r" in value:
        value = value.replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")
    return value


class _Cells(dict[type[Any], Callable[[Any], bytes]]):
    """How a value of each type is written; an enum is written as what it is made of."""

    def __missing__(self, kind: type[Any]) -> Callable[[Any], bytes]:
        self[kind] = next(write for known, write in self.items() if issubclass(kind, known))
        return self[kind]


_CELLS = _Cells(
    {
        type(None): lambda _: b"\\N",
        bytes: _escaped,
        str: lambda value: _escaped(value.encode()),
        bool: lambda value: b"t" if value else b"f",
        int: lambda value: b"%d" % value,
        float: lambda value: repr(value).encode(),
        UUID: lambda value: b"%032x" % value.int,
        datetime: lambda value: value.isoformat().encode(),
    }
)


class ArrayText(Dumper):
    """A list parameter as an array's text, its type left to the statement, which says it: psycopg's own way finds
    out the type of each item, which costs more than all else in a batch.
    """

    def dump(self, obj: list[Any]) -> bytes:
        return b"{%b}" % b",".join([_ITEMS[type(item)](item) for item in obj])


def use_array_text(engine: Engine) -> None:
    """For an engine whose statements cast every list."""

    @event.listens_for(engine, "connect")
    def register(connection: psycopg.Connection[Any], _record: object) -> None:
        connection.adapters.register_dumper(list, ArrayText)


def _quoted(value: str) -> bytes:
    return b'"%b"' % value.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')


_ITEMS = _Cells(
    {
        type(None): lambda _: b"NULL",
        str: _quoted,
        bool: _CELLS[bool],
        int: _CELLS[int],
        float: _CELLS[float],
        UUID: _CELLS[UUID],
        datetime: lambda value: b'"%b"' % value.isoformat().encode(),
        bytes: lambda value: b'"\\\\x%b"' % value.hex().encode(),
    }
)


def integers(values: Sequence[int] | None) -> bytes | None:
    """An integer[] as text: [1, 2] -> {1,2}."""
    return None if values is None else b"{%b}" % TokenIds.of(values).text


def reals(values: Sequence[float] | None) -> bytes | None:
    """A real[] as text, rounded to the nearest real here: Postgres refuses what is too small for one."""
    if values is None:
        return None
    rounded = array("f", values).tolist()
    if all(map(isfinite, rounded)):
        return b"{%b}" % json.encode(rounded)[1:-1]
    return f"{{{','.join(map(repr, rounded))}}}".encode()
