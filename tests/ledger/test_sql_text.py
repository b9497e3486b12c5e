"""What COPY and parameters carry is read by Postgres as what it was."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import DataError
from sqlalchemy import Column, Connection, MetaData, Table, Text, text
from sqlalchemy.exc import DataError as RefusedError
from sqlalchemy.exc import ProgrammingError

from ledger.bulk import copy_rows
from ledger.direct import direct
from ledger.sql_text import parameter
from ledger.text import to_json_bytes, to_storable_text
from ledger.vocabulary import Reason
from tests.ledger.test_text import ANY_JSON, ANY_TEXT

STORABLE = ANY_TEXT.map(to_storable_text)
LINES = st.text(st.sampled_from("a\\.\n\t\r\"'{},NULL")).map(to_storable_text)
T = Table("t", MetaData(), Column("id", Text, primary_key=True), Column("body", Text))
A_FEW = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@A_FEW
@given(st.lists(st.tuples(STORABLE | LINES, LINES | st.none()), unique_by=lambda row: row[0]))
def test_copied_text_is_read_as_it_was(connection: Connection, values: list[tuple[str, str | None]]) -> None:
    connection.execute(text("CREATE TEMPORARY TABLE t (id text PRIMARY KEY, body text)"))
    copy_rows(
        connection,
        T,
        ("id", "body"),
        [(id_, None if body is None else body.encode()) for id_, body in values],
    )
    found = connection.execute(text("SELECT id, body FROM t")).all()
    connection.rollback()
    assert {row.id: row.body for row in found} == dict(values)


def test_a_row_that_exists_stays_and_the_others_come(connection: Connection) -> None:
    """I4: a process that dies may have committed one of them a moment ago."""
    connection.execute(text("CREATE TEMPORARY TABLE t (id text PRIMARY KEY, body text)"))
    copy_rows(connection, T, ("id", "body"), [("a", b"first")])
    copy_rows(connection, T, ("id", "body"), [("b", b"new\n"), ("a", b"second")])
    assert connection.execute(text("SELECT * FROM t ORDER BY id")).all() == [("a", "first"), ("b", "new\n")]


@A_FEW
@given(st.lists(STORABLE | LINES | st.none()), ANY_JSON)
def test_lists_and_json_come_back_from_statements(
    connection: Connection, items: list[str | None], value: Any
) -> None:
    row = direct(connection).execute(
        text("SELECT CAST(:items AS text[]) AS items, CAST(:value AS jsonb) AS value"),
        {"items": items, "value": to_json_bytes(value).decode()},
    ).first()  # fmt: skip
    again = connection.execute(
        text("SELECT CAST(:v AS jsonb) = CAST(:v AS jsonb)"), {"v": to_json_bytes(row.value).decode()}
    )
    assert (row.items, again.scalar()) == (items, True)


VALUES = [
    (True, "boolean"), (None, "boolean"), (7, "integer"), (-0.5, "float8"), (float("inf"), "float8"), ("a'b", "text"),
    (UUID(int=5), "uuid"), (b"\x00\xff", "bytea"), (datetime(2026, 1, 2, 3, 4, 5, 678, UTC), "timestamptz"),
    (Reason.GREEDY, "text"), ([1, None, 3], "integer[]"), ([UUID(int=5)], "uuid[]"), ([b"\x01\\"], "bytea[]"),
    ([True, False], "boolean[]"), ([-0.5], "real[]"), ([datetime(2026, 1, 2, tzinfo=UTC)], "timestamptz[]"), ([], "text[]"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), VALUES)
def test_a_value_comes_back(connection: Connection, value: Any, kind: str) -> None:
    statement = text(
        rf"SELECT CAST(:value AS {kind}), '%', '\:x' WHERE CAST(:value AS {kind}) IS NOT NULL OR true"
    )
    assert direct(connection).execute(statement, {"value": value}).all() == [(value, "%", ":x")]
    assert direct(connection).scalar(statement, {"value": value}) == value
    assert direct(connection).scalars(statement, {"value": value}).all() == [value]


def test_a_direct_statement_is_part_of_the_transaction(connection: Connection) -> None:
    direct(connection).execute(text("CREATE TABLE gone (x int)"))
    connection.rollback()
    with pytest.raises(ProgrammingError):
        direct(connection).execute(text("SELECT * FROM gone"))


def test_what_postgres_refuses_is_sqlalchemys_error(connection: Connection) -> None:
    with pytest.raises(RefusedError):
        direct(connection).execute(text("SELECT CAST(:x AS integer)"), {"x": "one"})


def test_a_value_that_is_none_is_refused() -> None:
    with pytest.raises(DataError):
        parameter("\x00")
    with pytest.raises(TypeError, match="object"):
        parameter(object())
