"""Alembic migrations, one head: the only thing that changes the schema.

One starter at a time migrates, whoever else starts meanwhile waits and then finds nothing to do. The lock is held by a
transaction of its own and polled for, so that it works behind PgBouncer and a waiter holds no snapshot that a
concurrent index build would have to wait for.

Invariant: no statement waits long for a table while traffic queues behind it. Each transaction of a migration gives up
soon, lets through what waited, and is tried again; nothing here sets what outlives its transaction.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg
import structlog
from alembic import command
from alembic.config import Config
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from ledger.database import connect_options, database_address, translated_errors
from ledger.errors import LedgerError
from ledger.partitions import ensure_partitions
from ledger.schema import is_sufficient, read_revision

LOCK_TIMEOUT_SECONDS = 1.0  # for so long calls may queue behind a migration that waits for a table
ATTEMPTS = 20
PAUSE_SECONDS = 2.0  # in which what queued goes first
WAIT_SECONDS = 600  # for another starter's migration
_TABLE_IN_USE = (
    "a long transaction holds a table that the migration needs: end it (pg_stat_activity), then run `slipstream migrate` "
    "again, which goes on where it stopped"
)
_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(hashtextextended('slipstream:migrate', 0))")
_HAS_ROWS = text(
    "SELECT EXISTS (SELECT FROM exchanges) OR EXISTS (SELECT FROM trajectories) OR EXISTS (SELECT FROM reward_events)"
)

log = structlog.get_logger()


def migration_config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def migrate(database_url: str, revision: str = "head") -> tuple[str | None, str | None]:
    """Bring the schema to `revision` and make the partitions; the revision before and after. Safe to repeat, to break off and to run 20 at once.

    Raises LedgerError where another transaction holds a table all the time, or where `base` would drop rows.
    """
    engine = create_engine(database_address(database_url), poolclass=NullPool, connect_args=connect_options())
    with translated_errors(), _only_migrator(engine), engine.connect() as connection:
        event.listen(connection, "begin", _bound_waits)
        before = read_revision(connection)
        connection.rollback()
        for attempt in range(1, ATTEMPTS + 1):
            if _is_moved(connection, revision):
                return before, read_revision(connection)
            log.warning("migration_postponed", attempt=attempt, pause_seconds=PAUSE_SECONDS)
            time.sleep(PAUSE_SECONDS)
    raise LedgerError(_TABLE_IN_USE)


def _is_moved(connection: Connection, revision: str) -> bool:
    """False where a table was in use: what was committed stays, the rest is tried again."""
    try:
        _move(connection, revision)
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            raise
        connection.rollback()
        return False
    return True


def _bound_waits(connection: Connection) -> None:
    """LOCAL: behind PgBouncer, a server's session is handed to the next client as it is."""
    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    if (
        not driver.autocommit
    ):  # an index that is built concurrently waits as long as it must: nobody waits for it
        milliseconds = int(LOCK_TIMEOUT_SECONDS * 1000)
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {milliseconds}")


def _move(connection: Connection, revision: str) -> None:
    current = read_revision(connection)
    connection.rollback()
    if _is_down(current, revision):
        _refuse_to_drop_rows(connection, revision)
        command.downgrade(migration_config(connection), revision)
    elif revision != "head" or not is_sufficient(current):
        command.upgrade(migration_config(connection), revision)
    connection.commit()
    if revision != "base":
        ensure_partitions(connection, max_moved=None)


def _is_down(current: str | None, revision: str) -> bool:
    return revision == "base" or (revision != "head" and current is not None and revision < current)


def _refuse_to_drop_rows(connection: Connection, revision: str) -> None:
    """Nothing destroys data: below the first migration there is no table that could hold it."""
    if revision == "base" and read_revision(connection) and connection.scalar(_HAS_ROWS):
        raise LedgerError(
            "the ledger holds rows, and this would drop them: drop the database yourself if you mean it"
        )
    connection.rollback()


@contextmanager
def _only_migrator(engine: Engine) -> Iterator[None]:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with engine.connect() as connection, connection.begin():
            if connection.scalar(_TRY_LOCK):
                connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
                yield
                return
        time.sleep(0.1)
    raise LedgerError(
        "another migration has been running for 10 minutes: see pg_stat_activity, then try again"
    )
