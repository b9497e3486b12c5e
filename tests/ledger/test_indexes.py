"""Indexes of partitioned tables are built while writers go on, and a build that broke off is begun again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from psycopg.errors import UniqueViolation
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from ledger.database import sync_engine
from ledger.partitions import ensure_partitions, month_start
from ledger.recording import record_calls
from migrations import indexes
from migrations.indexes import build_index
from tests.ledger.calls import a_call, a_policy
from tests.ledger.test_migrations import UNINDEXED

INDEX = ("exchanges", "ix_exchanges_seed", "(seed, id) WHERE seed IS NOT NULL")


@contextmanager
def a_migration(engine: Engine) -> Iterator[Connection]:
    """As alembic runs one: a transaction on a connection of its own."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"transaction_per_migration": True})
        with Operations.context(context), context.begin_transaction(_per_migration=True):
            yield connection


def build(engine: Engine) -> None:
    with a_migration(engine):
        build_index(*INDEX)


def partitions(engine: Engine) -> dict[str, bool]:
    """Each partition's index, and whether it is valid."""
    query = text("""
        SELECT CAST(CAST(x.indrelid AS regclass) AS text), x.indisvalid FROM pg_inherits AS i
        JOIN pg_index AS x ON x.indexrelid = i.inhrelid WHERE i.inhparent = 'ix_exchanges_seed'::regclass
    """)
    with engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def unindexed(engine: Engine) -> list[object]:
    with engine.connect() as connection:
        return list(connection.execute(UNINDEXED))


@pytest.fixture
def filled(engine: Engine) -> Engine:
    """Rows in this month; a partition before it, three behind it, and DEFAULT."""
    with engine.connect() as connection:
        ensure_partitions(connection, also=[month_start(datetime.now(UTC), -1)])
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [a_call(seed=number) for number in range(200)])
    return engine


def test_every_partition_gets_the_index_and_the_parents_is_valid(filled: Engine) -> None:
    build(filled)
    assert len(partitions(filled)) == 6
    assert all(partitions(filled).values())
    assert unindexed(filled) == []
    with filled.connect() as connection:
        plan = "\n".join(connection.scalars(text("EXPLAIN SELECT id FROM exchanges WHERE seed = 7")))
        assert "seed_idx" in plan
    build(filled)  # nothing is left to do
    assert unindexed(filled) == []


def test_a_build_that_broke_off_is_begun_again(filled: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unique build that meets two equal rows fails in the middle: some are done, one is invalid, some are missing."""
    month = f"exchanges_{datetime.now(UTC):%Y_%m}"
    run = indexes._run

    def run_and_fail(sql: str) -> None:
        if sql.startswith(f"CREATE INDEX CONCURRENTLY {month}_seed_idx"):
            unique = f"CREATE UNIQUE INDEX CONCURRENTLY {month}_seed_idx ON {month} (project_id)"
            run(unique)
        run(sql)

    monkeypatch.setattr(indexes, "_run", run_and_fail)
    with pytest.raises(DBAPIError) as error:
        build(filled)
    assert isinstance(error.value.orig, UniqueViolation)
    invalid = text("SELECT NOT indisvalid FROM pg_index WHERE indexrelid = CAST(:name AS regclass)")
    with filled.connect() as connection:
        assert connection.scalar(invalid, {"name": f"{month}_seed_idx"}) is True
    assert 0 < len(partitions(filled)) < 6
    monkeypatch.undo()
    build(filled)
    assert all(partitions(filled).values())
    assert unindexed(filled) == []


def test_a_partition_that_is_made_after_the_index_has_it(filled: Engine) -> None:
    build(filled)
    with filled.connect() as connection:
        ensure_partitions(connection, datetime(2031, 1, 1, tzinfo=UTC))
    assert partitions(filled)["exchanges_2031_01"]


def test_writers_go_on_while_it_is_built(filled: Engine, database_url: str) -> None:
    """A transaction that is older holds up the build; nobody waits for the build."""
    writer = sync_engine(database_url, pool_size=1)
    with filled.connect().execution_options(isolation_level="REPEATABLE READ") as older:
        older.execute(text("SELECT count(*) FROM exchanges"))  # a snapshot that the build has to outlive
        thread = threading.Thread(target=build, args=(filled,))
        thread.start()
        for seed in range(20):
            with writer.begin() as connection:
                connection.execute(text("SET LOCAL lock_timeout = '2s'"))
                record_calls(connection, [a_call(seed=seed)])
        assert thread.is_alive()
        older.rollback()
        thread.join(30)
    writer.dispose()
    assert unindexed(filled) == []
