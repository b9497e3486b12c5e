"""Monthly partitions, made ahead. Their bounds are UUIDv7 values, so a row's month is in its own id.

A new partition is built aside and attached: that blocks no reader and no writer of the others. Rows which waited in
the DEFAULT partition move into it in the same transaction, so no row is ever outside the table.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import Connection, text

from ledger.identifiers import first_id_at

PARTITIONED_TABLES = ("trajectories", "exchanges", "reward_events")
MONTHS_AHEAD = 3
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('slipstream:partitions', 0))"


def month_start(moment: datetime, offset: int = 0) -> datetime:
    """Midnight UTC of the first day of the month `offset` months after `moment`'s."""
    months = moment.astimezone(UTC).year * 12 + moment.astimezone(UTC).month - 1 + offset
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)


def partition_name(table: str, month: datetime) -> str:
    return f"{table}_{month:%Y_%m}"


def ensure_partitions(connection: Connection, now: datetime | None = None) -> list[str]:
    """Make the partitions of the previous, this and the next three months; the names of those that are new."""
    connection.execute(
        text("SET LOCAL lock_timeout = '5s'")
    )  # fail and try again rather than queue all traffic
    connection.execute(text(_LOCK))
    moment = now or datetime.now(UTC)
    return [name for name in _wanted(connection, moment) if name]


def _wanted(connection: Connection, moment: datetime) -> Iterator[str | None]:
    for table in PARTITIONED_TABLES:
        for offset in range(-1, MONTHS_AHEAD + 1):
            yield _ensure_partition(connection, table, month_start(moment, offset))


def _ensure_partition(connection: Connection, table: str, month: datetime) -> str | None:
    name = partition_name(table, month)
    if connection.scalar(text("SELECT to_regclass(:name)"), {"name": name}) is not None:
        return None
    lower, upper = first_id_at(month), first_id_at(month_start(month, 1))
    bounds = f"id >= '{lower}' AND id < '{upper}'"
    for statement in (
        f"LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE",  # no row may slip in before it is attached
        f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)",
        f"WITH moved AS (DELETE FROM {table}_default WHERE {bounds} RETURNING *) INSERT INTO {name} SELECT * FROM moved",  # noqa: S608 - names and ids of our own
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{lower}') TO ('{upper}')",
    ):
        connection.execute(text(statement))
    return name
