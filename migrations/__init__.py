"""Alembic migrations, one head: the only thing that changes the schema.

One starter at a time migrates, whoever else starts meanwhile waits and then finds nothing to do. The lock is held by a
transaction of its own and polled for, so that it works behind PgBouncer and a waiter holds no snapshot that a
concurrent index build would have to wait for.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from ledger.database import connect_options, database_address, translated_errors
from ledger.errors import LedgerError
from ledger.partitions import ensure_partitions
from ledger.schema import is_sufficient, read_revision

LOCK_TIMEOUT_SECONDS = 5  # on tables: a migration gives up rather than queue all traffic behind it
WAIT_SECONDS = 600  # for another starter's migration
_TABLE_IN_USE = (
    "a long transaction holds a table that the migration needs: end it (pg_stat_activity), then try again"
)
_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(hashtextextended('slipstream:migrate', 0))")


def migration_config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def migrate(database_url: str, revision: str = "head") -> None:
    """Bring the schema to `revision` and make this month's partitions. Safe to repeat and to run 20 at once."""
    engine = create_engine(database_address(database_url), poolclass=NullPool, connect_args=connect_options())
    with translated_errors(), _only_migrator(engine), engine.connect() as connection:
        connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))
        connection.commit()
        try:
            _move(connection, revision)
        except OperationalError as error:
            if isinstance(error.orig, LockNotAvailable):
                raise LedgerError(_TABLE_IN_USE) from error
            raise


def _move(connection: Connection, revision: str) -> None:
    current = read_revision(connection)
    connection.rollback()
    is_newer = revision == "head" and is_sufficient(current)
    if revision == "base" or (revision != "head" and current is not None and revision < current):
        command.downgrade(migration_config(connection), revision)
    elif not is_newer:
        command.upgrade(migration_config(connection), revision)
    connection.commit()
    if revision != "base":
        with connection.begin():
            ensure_partitions(connection)


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
