"""Monthly partitions, made ahead. Their bounds are UUIDv7 values, so a row's month is in its own id.

Invariant: no row ever fails for want of a partition. DEFAULT takes what has none: ids of a clock that runs ahead, and of
months that nobody has made yet. Whoever runs makes them (migrate, proxy, worker), each in a transaction of its own that
locks one table's DEFAULT, briefly or not at all; rows that waited there move in the same transaction.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from uuid import UUID

import structlog
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from ledger.identifiers import first_id_at, time_of

PARTITIONED_TABLES = ("trajectories", "exchanges", "reward_events")
MONTHS_AHEAD = 3
MAX_FOUND = 12  # months that DEFAULT holds rows of, made in one run
MAX_MOVED = 5_000  # rows that wait in DEFAULT; to move more than these would hold up traffic
LOCK_TIMEOUT = "1s"  # fail and try again later rather than queue all traffic behind an analyst's query
_HAS_PARTITION = text("""
    SELECT EXISTS (
        SELECT FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
        WHERE inhparent = to_regclass(:table) AND c.relname = :name
    )
""")
# The commonest values of an expression on callers' words would be readable in pg_stats after those were erased.
NO_INDEX_STATISTICS = """
    DO $$
    DECLARE found record;
    BEGIN
        FOR found IN
            SELECT i.indexrelid, a.attnum FROM pg_index AS i
            JOIN pg_class AS t ON t.oid = i.indrelid AND t.relkind = 'r'
            JOIN pg_attribute AS a ON a.attrelid = i.indexrelid
            WHERE i.indrelid::regclass::text ~ '^(exchanges|trajectories)_'
                AND i.indrelid::regclass::text LIKE '{tables}'
                AND i.indkey[a.attnum - 1] = 0 AND a.atttypid = 'text'::regtype
                AND coalesce(a.attstattarget, -1) <> 0
        LOOP
            EXECUTE format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS 0', found.indexrelid::regclass, found.attnum);
        END LOOP;
    END $$
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('slipstream:partitions', 0))"

log = structlog.get_logger()


def month_start(moment: datetime, offset: int = 0) -> datetime:
    """Midnight UTC of the first day of the month `offset` months after `moment`'s.

    Example: 2026-12-31 23:30 at UTC-1 is already January: 2027-01-01; its month with offset -1 is 2026-12-01.
    """
    months = moment.astimezone(UTC).year * 12 + moment.astimezone(UTC).month - 1 + offset
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)


def month_bounds(month: datetime) -> tuple[UUID, UUID]:
    """The first id of a month, and of the next one: lower <= id < upper.

    Example: December 2026 begins 1,796,083,200,000 ms after 1970, which is 0x01a22ee6b000; January 2027 at
    0x01a2ce8bd400. So its ids run from 01a22ee6-b000-0000-0000-000000000000 to before 01a2ce8b-d400-0000-….
    """
    return first_id_at(month), first_id_at(month_start(month, 1))


def partition_name(table: str, month: datetime) -> str:
    """Example: exchanges of December 2026 -> exchanges_2026_12."""
    return f"{table}_{month.year:04}_{month.month:02}"


def ensure_partitions(
    connection: Connection,
    now: datetime | None = None,
    *,
    also: Iterable[datetime] = (),
    max_moved: int | None = MAX_MOVED,
) -> list[str]:
    """Make what is missing; the names of those that are new. Call it outside of a transaction.

    Of each table: this and the next three months, past months that DEFAULT holds rows of, and the months
    of the moments in `also` (what an import is about to write). What cannot be made now is logged and left for the next.
    """
    moment = now or datetime.now(UTC)
    made = []
    for table in PARTITIONED_TABLES:
        for month in _missing(connection, table, moment, also):
            try:
                with connection.begin():
                    name = _make(connection, table, month, max_moved)
            except OperationalError as error:
                if not isinstance(error.orig, LockNotAvailable):
                    raise
                log.warning("partition_postponed", name=partition_name(table, month), reason="table in use")
            else:
                made += [name] if name else []
    return made


def _missing(
    connection: Connection, table: str, moment: datetime, also: Iterable[datetime]
) -> list[datetime]:
    with connection.begin():
        ahead = [month_start(moment, offset) for offset in range(MONTHS_AHEAD + 1)]
        wanted = {*ahead, *map(month_start, also), *months_in_default(connection, table, ahead[0])}
        return [month for month in sorted(wanted) if not has_partition(connection, table, month)]


def months_in_default(connection: Connection, table: str, before: datetime) -> Iterator[datetime]:
    """Past months that DEFAULT holds rows of: one look at its index for each. The future's wait until it comes."""
    lower, end = UUID(int=0), first_id_at(before)
    query = text(f"SELECT id FROM {table}_default WHERE id >= :lower AND id < :end ORDER BY id LIMIT 1")  # noqa: S608 - our own names
    for _ in range(MAX_FOUND):
        found = connection.scalar(query, {"lower": lower, "end": end})
        if found is None:
            return
        month = month_start(time_of(found))
        yield month
        lower = month_bounds(month)[1]


def has_partition(connection: Connection, table: str, month: datetime) -> bool:
    """Asked of the catalogue's rows: to_regclass may remember that there was none, in spite of the lock."""
    return bool(connection.scalar(_HAS_PARTITION, {"table": table, "name": partition_name(table, month)}))


def _make(connection: Connection, table: str, month: datetime, max_moved: int | None) -> str | None:
    """None if another process was faster, or too many rows of the month wait in DEFAULT."""
    name, (lower, upper) = partition_name(table, month), month_bounds(month)
    bounds = f"id >= '{lower}' AND id < '{upper}'"
    connection.execute(text(_LOCK))
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
    if has_partition(connection, table, month):
        return None
    if max_moved is not None and is_too_many(connection, table, month, max_moved):
        log.warning(
            "partition_postponed", name=name, reason="many rows wait in DEFAULT: run `slipstream migrate`"
        )
        return None
    for statement in (
        f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE",  # what attaching takes; then nothing is left to wait for
        f"LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE",  # no row may slip in before it is attached
        f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)",
        f"WITH moved AS (DELETE FROM {table}_default WHERE {bounds} RETURNING *) INSERT INTO {name} SELECT * FROM moved",  # noqa: S608 - names and ids of our own
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{lower}') TO ('{upper}')",
    ):
        connection.execute(text(statement))
    connection.exec_driver_sql(
        NO_INDEX_STATISTICS.format(tables=name), execution_options={"no_parameters": True}
    )
    return name


def waiting_rows(table: str, month: datetime) -> str:
    """Those of a month that has no partition, as a table that a query can read."""
    lower, upper = month_bounds(month)
    return f"(SELECT * FROM {table}_default WHERE id >= '{lower}' AND id < '{upper}')"  # noqa: S608 - our own


def is_too_many(connection: Connection, table: str, month: datetime, most: int = MAX_MOVED) -> bool:
    """Whether more rows of a month wait in DEFAULT than may be moved while traffic waits."""
    query = f"SELECT count(*) FROM (SELECT FROM {waiting_rows(table, month)} AS w LIMIT {most + 1}) AS found"  # noqa: S608
    return int(connection.scalar(text(query)) or 0) > most
