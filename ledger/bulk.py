"""Many rows in one statement. A row that exists stays as it is.

`insert_rows`: one array parameter a column, unnested by Postgres; works the same on a sync and an async connection,
without server-side state. `copy_rows`: COPY, which is the cheapest way for wide rows; an existing key refuses them all.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from math import isfinite
from typing import Any
from uuid import UUID

import psycopg
from msgspec import json
from sqlalchemy import Connection, Table, TextClause, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.exc import DBAPIError

from ledger.token_ids import TokenIds

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


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
    """Insert rows (all with the same keys) whose keys are new. Arrays and JSON are given as text, text as storable.

    Raises IntegrityError if a key exists: another process wrote it meanwhile.
    """
    if not rows:
        return
    statement = f"COPY {table.name} ({', '.join(rows[0])}) FROM STDIN"
    try:
        with connection.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write("\t".join([_CELLS[type(value)](value) for value in row.values()]) + "\n")
    except psycopg.Error as error:
        raise DBAPIError.instance(statement, None, error, psycopg.Error, dialect=_DIALECT) from error


def _text_cell(value: str) -> str:
    """As COPY's text format wants it."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if "\n" in value or "\t" in value or "\r" in value:
        value = value.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return value


class _Cells(dict[type[Any], Callable[[Any], str]]):
    """How a value of each type is written; an enum is written as what it is made of."""

    def __missing__(self, kind: type[Any]) -> Callable[[Any], str]:
        self[kind] = next(write for known, write in self.items() if issubclass(kind, known))
        return self[kind]


_CELLS = _Cells(
    {
        type(None): lambda _: "\\N",
        str: _text_cell,
        bool: lambda value: "t" if value else "f",
        int: str,
        float: repr,
        UUID: str,
        bytes: lambda value: f"\\\\x{value.hex()}",
        datetime: datetime.isoformat,
    }
)


def integers(values: Sequence[int] | None) -> str | None:
    """An integer[] as text: [1, 2] -> {1,2}."""
    return None if values is None else f"{{{TokenIds.of(values).text.decode()}}}"


def reals(values: Sequence[float] | None) -> str | None:
    """A real[] as text, rounded to the nearest real here: Postgres refuses what is too small for one."""
    if values is None:
        return None
    rounded = array("f", values).tolist()
    if all(map(isfinite, rounded)):
        return f"{{{json.encode(rounded)[1:-1].decode()}}}"
    return f"{{{','.join(map(repr, rounded))}}}"
