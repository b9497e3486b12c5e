"""Many rows in one statement: one array parameter a column, unnested by Postgres. A row that exists stays as it is.

Works the same on a sync and an async connection, without server-side state. Arrays and JSON travel as text, because
an array of arrays would have to be rectangular.
"""

from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, TextClause, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

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


def integers(values: Sequence[int] | None) -> str | None:
    """An integer[] as text: [1, 2] -> {1,2}."""
    return None if values is None else "{" + ",".join(map(str, values)) + "}"


def reals(values: Sequence[float] | None) -> str | None:
    """A real[] as text, rounded to the nearest real here: Postgres refuses what is too small for one."""
    return None if values is None else "{" + ",".join(map(repr, array("f", values))) + "}"
