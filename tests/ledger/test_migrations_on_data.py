"""Migrations of a ledger that holds rows and is written to: nothing is lost, and nobody waits long."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text

from ledger.database import sync_engine
from ledger.errors import LedgerError
from ledger.identifiers import new_call_id
from ledger.schema import EXPECTED_REVISION, REVISIONS
from migrations import migrate
from tests.ledger.learned import fill

Rows = dict[str, dict[str, list[Any]]]


@pytest.fixture
def filled(engine: Engine) -> Iterator[Engine]:
    with engine.begin() as connection:
        fill(connection)
    yield engine
    engine.dispose()


def everything(engine: Engine) -> Rows:
    """Every column of every table, its values in the order of the rows' keys."""
    tables = inspect(engine).get_table_names()
    found: Rows = {}
    with engine.connect() as connection:
        for table in [name for name in tables if name != "alembic_version" and not name[-1].isdigit()]:
            rows = connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2")).mappings().all()
            columns = [column["name"] for column in inspect(engine).get_columns(table)]
            found[table] = {name: [row[name] for row in rows] for name in columns}
    return found


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_rows_survive_the_way_down_and_up_where_their_columns_do(
    filled: Engine, database_url: str, revision: str
) -> None:
    """Whatever the older schema can hold is there unchanged, and there again after the way up."""
    before = everything(filled)
    assert sum(len(values) for table in before.values() for values in table.values()) > 500
    filled.dispose()
    migrate(database_url, revision)
    below = everything(filled)
    migrate(database_url)
    after = everything(filled)
    for table, columns in below.items():
        for name, values in columns.items():
            assert values == before[table][name] == after[table][name], f"{table}.{name}"
    assert {table: list(columns) for table, columns in after.items()} == {
        table: list(columns) for table, columns in before.items()
    }


def test_nothing_destroys_rows(filled: Engine, database_url: str) -> None:
    """Below the first migration there is no table: with rows in the ledger that way is closed."""
    before = everything(filled)
    with pytest.raises(LedgerError, match="would drop them"):
        migrate(database_url, "base")
    assert everything(filled) == before


NEW_MEANINGS = {
    "shadow siblings": ("UPDATE trajectories SET is_shadow = {}", "true", "false"),
    "comparisons": ("UPDATE reward_events SET comparison_id = {}", "id", "NULL"),
    "partial judgements": ("UPDATE reward_events SET is_final = {}", "false", "true"),
    "of the whole": ("UPDATE reward_events SET is_whole = {}", "true", "false"),
    "declared metrics": (
        "{}",
        "INSERT INTO metrics SELECT id, 'stars', 1, 5 FROM policies",
        "DELETE FROM metrics",
    ),
    "combine": ("UPDATE policies SET combination = {}", "'min'", "'mean'"),
}


def test_what_an_older_schema_would_take_for_something_else_closes_the_way_down(
    filled: Engine, database_url: str
) -> None:
    """A sibling would be a user's answer, a declared metric's events would count no more."""
    migrate(database_url, "0009")
    for name, (statement, done, undone) in NEW_MEANINGS.items():
        for value in (done, undone):
            with filled.begin() as connection:
                connection.execute(text(statement.format(value)))
            if value == done:
                before = everything(filled)
                with pytest.raises(LedgerError, match=name):
                    migrate(database_url, "0008")
                assert everything(filled) == before
    migrate(database_url, "0008")


A_ROW = text("""
    INSERT INTO trajectories (id, project_id, policy_id, identified_by) SELECT :id, project_id, id, 'new' FROM policies LIMIT 1
""")


def test_writers_wait_no_longer_than_the_migration_may(
    filled: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst holds a table that the migration needs. It tries again and again; calls are written in between."""
    monkeypatch.setattr("migrations.LOCK_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr("migrations.PAUSE_SECONDS", 0.3)
    migrate(database_url, "0004")
    seconds = []
    writer = sync_engine(database_url, pool_size=1)
    with filled.connect() as analyst:
        analyst.execute(text("SELECT count(*) FROM policies"))
        thread = threading.Thread(target=migrate, args=(database_url,))
        thread.start()
        for _ in range(30):
            began_at = time.monotonic()
            with writer.begin() as connection:
                connection.execute(A_ROW, {"id": new_call_id()})  # as the older code writes
            seconds.append(time.monotonic() - began_at)
            time.sleep(0.05)
        assert thread.is_alive()
        analyst.rollback()
        thread.join(30)
    assert max(seconds) < 1.5
    with writer.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == EXPECTED_REVISION
    writer.dispose()
