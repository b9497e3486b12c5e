"""What Postgres' planner remembers of erased words: pg_stats holds the commonest values of a column, readable as text.

Invariant: every table that an erasure changed is analysed before it is finished, so that a killed one is gone on with.
Statistics of the expression indexes on users' names do not exist (migration 0008): a partial index in which nobody is
left would keep its old ones.
"""

from datetime import UTC, datetime
from uuid import UUID

import structlog
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from ledger.identifiers import time_of
from ledger.partitions import PARTITIONED_TABLES, has_partition, partition_name

_LOG = structlog.get_logger()
_OTHER_TABLES = ("groups", "trajectory_names")
_IDS = text("""
    SELECT id FROM exchanges WHERE id = ANY (CAST(:ids AS uuid[]))
    UNION ALL SELECT id FROM trajectories WHERE id = ANY (CAST(:trajectory_ids AS uuid[]))
    UNION ALL SELECT id FROM reward_events WHERE trajectory_id = ANY (CAST(:trajectory_ids AS uuid[]))
""")
_HAS_STATISTICS = text("SELECT EXISTS (SELECT FROM pg_stats WHERE tablename = :table AND inherited)")
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '5s'"


def months_of(connection: Connection, ids: list[UUID], trajectory_ids: list[UUID]) -> set[str]:
    """The months in which rows of these lie. Example: {"2026-11"}."""
    found = connection.scalars(_IDS, {"ids": ids, "trajectory_ids": trajectory_ids})
    return {f"{time_of(id_):%Y-%m}" for id_ in found}


def tables_of(connection: Connection, months: list[str]) -> list[str]:
    """What is to be analysed; a parent (which takes all its partitions along) only where somebody analysed it before."""
    if not months:
        return []
    names = {
        partition for table in PARTITIONED_TABLES for partition in _partitions(connection, table, months)
    }
    return [*sorted(names), *_OTHER_TABLES]


def _partitions(connection: Connection, table: str, months: list[str]) -> set[str]:
    if connection.scalar(_HAS_STATISTICS, {"table": table}):
        return {table}
    starts = [datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC) for month in months]
    return {
        partition_name(table, start) if has_partition(connection, table, start) else f"{table}_default"
        for start in starts
    }


def analyse(connection: Connection, table: str) -> None:
    """A sample of bounded size. A table that is in use all the time is left to the autovacuum, and told."""
    try:
        with connection.begin_nested():
            connection.execute(text(_LOCK_TIMEOUT))
            connection.execute(text(f"ANALYZE {table}"))
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        _LOG.warning("statistics_kept", table=table, reason="in use: run ANALYZE yourself")
