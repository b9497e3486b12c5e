"""The evidence of an audit, gathered in the order that makes it hold while proxies run: see ledger/audit/comparison.py."""

import socket
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from ledger.audit.call_numbers import moment_of
from ledger.audit.comparison import Captured, Evidence, Hour, Key, Process, compare
from ledger.audit.disk import SpoolFound, read_spool
from ledger.audit.number_set import NumberSet
from ledger.identifiers import first_id_at
from ledger.partitions import month_start, partition_name

_BEFORE = text(
    "SELECT process, CAST(extract(epoch FROM hour) / 3600 AS bigint), num_accepted FROM capture_hours"
)
_CAPTURED = text("""
    SELECT process, CAST(extract(epoch FROM hour) / 3600 AS bigint) AS hour, num_accepted,
        CAST(committed AS text), CAST(interrupted AS text), CAST(rejected AS text), uncaptured
    FROM capture_hours
""")
_PROCESSES = text("SELECT process, host, spool, num_damaged, seen_at, ended_at FROM capture_processes")
_IS_KNOWN = text("SELECT EXISTS (SELECT FROM capture_processes WHERE host = :host AND spool = :spool)")
_NOW = text("SELECT now()")
# A call's exchanges differ in the last 16 bits of their ids.
_ROWS = text(
    "SELECT count(DISTINCT substring(uuid_send(id) FOR 14)) FROM exchanges WHERE id >= :first AND id < :last"
    " AND NOT is_shadow"
)
# What retention removed is no loss; it goes by months, so the hours of such a month are not judged.
_IS_WHOLE = text("""
    SELECT to_regclass(:name) IS NOT NULL
        AND NOT EXISTS (SELECT FROM removals WHERE table_name = 'exchanges' AND month = CAST(:month AS date))
""")


@dataclass(frozen=True, slots=True)
class Rows:
    """Of one hour: calls that were committed, and calls that have rows. None: retention was at work in that month."""

    hour: int
    num_committed: int
    num_rows: int | None

    @property
    def num_gone(self) -> int:
        return 0 if self.num_rows is None else max(0, self.num_committed - self.num_rows)


@dataclass(frozen=True, slots=True)
class Audit:
    hours: Sequence[Hour]
    rows: Sequence[Rows]
    found: SpoolFound
    num_damaged: int

    @property
    def num_lost(self) -> int:
        return sum(len(hour.lost) for hour in self.hours)

    @property
    def num_gone(self) -> int:
        return sum(rows.num_gone for rows in self.rows)

    @property
    def num_rejected(self) -> int:
        return self.found.num_unnumbered + sum(hour.num_rejected for hour in self.hours)

    @property
    def is_whole(self) -> bool:
        """Nothing is lost, gone, or waits for a hand."""
        return not (self.num_lost or self.num_gone or self.num_rejected)


def is_known(engine: Engine, spool: Path) -> bool:
    """Whether a process of this machine has ever written to this spool."""
    where = {"host": socket.gethostname(), "spool": str(spool.absolute())}
    with engine.connect() as connection:
        return bool(connection.execute(_IS_KNOWN, where).scalar_one())


def audit(engine: Engine, spool: Path, num_hours: int) -> Audit:
    """All numbers of all hours are compared; rows are counted for the last `num_hours`, which is what costs time."""
    with engine.connect() as connection:
        before: dict[Key, int] = {(p, h): n for p, h, n in connection.execute(_BEFORE)}
    found = read_spool(spool)
    snapshot = engine.execution_options(isolation_level="REPEATABLE READ")
    with snapshot.connect() as connection, connection.begin():
        evidence, num_damaged = _evidence(connection, before, found, spool)
        hours = list(compare(evidence))
        first = int((evidence.now - timedelta(hours=num_hours)).timestamp()) // 3600
        rows = list(_rows(connection, [hour for hour in hours if hour.hour > first]))
    return Audit(hours, rows, found, num_damaged)


def _evidence(
    connection: Connection, before: dict[Key, int], found: SpoolFound, spool: Path
) -> tuple[Evidence, int]:
    parse = NumberSet.parse
    here = (socket.gethostname(), str(spool.absolute()))
    processes, num_damaged = {}, 0
    for process, host, path, damaged, seen_at, ended_at in connection.execute(_PROCESSES):
        processes[process] = Process(
            seen_at,
            is_ended=ended_at is not None,
            is_here=(host, path) == here or process in found.processes,
        )
        num_damaged += damaged
    captured = {
        (process, hour): Captured(accepted, parse(committed), parse(interrupted), parse(rejected), uncaptured)
        for process, hour, accepted, committed, interrupted, rejected, uncaptured in connection.execute(
            _CAPTURED
        )
    }
    now = connection.execute(_NOW).scalar_one()
    return Evidence(before, found.held, captured, processes, now), num_damaged


def _rows(connection: Connection, hours: Iterable[Hour]) -> Iterable[Rows]:
    committed: dict[int, int] = defaultdict(int)
    for hour in hours:
        committed[hour.hour] += len(hour.committed)
    for number in sorted(committed):
        moment = moment_of(number)
        month = month_start(moment)
        where = {"name": partition_name("exchanges", month), "month": month.date()}
        num_rows = None
        if connection.execute(_IS_WHOLE, where).scalar_one():
            bounds = {"first": first_id_at(moment), "last": first_id_at(moment_of(number + 1))}
            num_rows = connection.execute(_ROWS, bounds).scalar_one()
        yield Rows(number, committed[number], num_rows)
