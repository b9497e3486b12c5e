"""Many rows in one statement. A row that exists stays as it is.

`insert_rows`: one array parameter a column, unnested by Postgres; works the same on a sync and an async connection,
without server-side state. `copy_rows`: COPY, the cheapest way for wide rows, which an existing key refuses; then they
are inserted instead.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import Any, cast

import psycopg
from msgspec import json
from sqlalchemy import Connection, Table, TextClause, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.exc import IntegrityError

from ledger.direct import Question, direct
from ledger.sql_text import copied
from ledger.token_ids import TokenIds

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_BLOCK_BYTES = 64 << 10
_TRY = text("SAVEPOINT copied")
_TRY_AGAIN = text("ROLLBACK TO SAVEPOINT copied")
_KEEP = text("RELEASE SAVEPOINT copied")


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows (all with the same keys, which are column names), skipping those whose key exists."""
    if not rows:
        return
    columns, values = _columns(rows)
    connection.execute(_insert_statement(table, columns, " ON CONFLICT DO NOTHING"), values)


def insert_question(table: Table, rows: Sequence[Mapping[str, Any]]) -> Question:
    """To insert rows (at least one) that must all be written: a key that exists is an error."""
    columns, values = _columns(rows)
    return _insert_statement(table, columns), values


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], dict[str, list[Any]]]:
    columns = tuple(rows[0])
    return columns, {name: [row[name] for row in rows] for name in columns}


@cache
def _insert_statement(table: Table, columns: tuple[str, ...], on_conflict: str = "") -> TextClause:
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
        f" FROM unnest({', '.join(sent)}) AS sent ({names}){on_conflict}"
    )


def copy_rows(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """As `insert_rows`, for rows that are almost always new. Bytes are text, storable and in UTF-8."""
    if not rows:
        return
    statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN"
    driver = direct(connection)
    driver.later(_TRY)
    try:
        driver.copy(statement, _blocks(rows))
    except IntegrityError as error:
        if not isinstance(error.orig, psycopg.errors.UniqueViolation):
            raise
        # another process was on its way to write one of them
        driver.later(_TRY_AGAIN)
        insert_rows(
            cast("Connection", driver),
            table,
            [dict(zip(columns, map(_as_text, row), strict=True)) for row in rows],
        )
    driver.later(_KEEP)


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _blocks(rows: Sequence[Sequence[Any]]) -> Iterator[bytes]:
    """A few rows together; a large one comes alone, without another copy of it."""
    together: list[Sequence[Any]] = []
    num_bytes = 0
    for row in rows:
        together.append(row)
        num_bytes += sum([len(value) for value in row if type(value) is bytes])
        if num_bytes > _BLOCK_BYTES:
            yield copied(together)
            together, num_bytes = [], 0
    yield copied(together)


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
