"""Upkeep: what retention asks for is carried out, oldest month first, for a bounded time; the next run goes on.

Invariant: what goes is counted in `removals` in the same transaction. A table in use, or samples that a step has
claimed, postpone what they hold and nothing else.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from ledger import removal
from ledger.left_over import LEFT_OVER
from ledger.partitions import has_partition, is_too_many, partition_name, waiting_rows
from ledger.removal import Month
from ledger.retention import months_over, read_retentions, waiting_months

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.2  # what queued behind us goes first
_LAST_ID = UUID(int=(1 << 128) - 1)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Removed:
    """Rows of one table and month that went, or in a dry run would go. Example: exchanges_2026_03, 120,000, dropped."""

    month: datetime
    table: str
    num_rows: int
    is_dropped: bool


@dataclass(frozen=True, slots=True)
class Postponed:
    """What is left of a month, and why."""

    month: datetime
    reason: str


class PostponedError(Exception):
    """What is left of a month has to wait."""


def plan_retention(
    connection: Connection, now: datetime | None = None
) -> tuple[list[Removed], list[Postponed]]:
    """What a run would remove of exchanges and trajectories; their names and rewards go with them.

    Rows that wait in DEFAULT count: a run gives them their month first.
    """
    moment = now or datetime.now(UTC)
    with connection.begin():
        todo = _months(connection, moment, waiting_months(connection, moment))
    planned, postponed = [], []
    for month in todo:
        for table in ("exchanges", "trajectories"):
            is_made = _exists(connection, table, month)
            part = partition_name(table, month.start) if is_made else waiting_rows(table, month.start)
            with connection.begin():
                num_rows, is_dropped = removal.count_going(connection, month, table, part)
                is_left = not is_made and is_too_many(connection, table, month.start)
            if is_left:
                postponed.append(Postponed(month.start, f"{num_rows:,} rows wait for `slipstream migrate`"))
            elif num_rows:
                planned.append(Removed(month.start, table, num_rows, is_dropped))
    return planned, postponed


def apply_retention(
    connection: Connection, now: datetime | None = None, *, seconds: float = 60
) -> tuple[list[Removed], list[Postponed]]:
    """Remove what is over, for so many seconds. Safe to repeat, to run at once, and to break off anywhere.

    Call it outside of a transaction.
    """
    removed: list[Removed] = []
    postponed: list[Postponed] = []
    deadline = time.monotonic() + seconds
    with connection.begin():
        todo = _months(connection, now or datetime.now(UTC))
    for month in todo:
        try:
            _check_time(deadline if removed or postponed else math.inf)  # each run does something
            for one in _remove(connection, month, deadline):
                removed.append(one)  # noqa: PERF402
        except PostponedError as error:
            postponed.append(Postponed(month.start, str(error)))
    return removed, postponed


def _months(connection: Connection, now: datetime, also: Sequence[datetime] = ()) -> list[Month]:
    all_ = read_retentions(connection)
    return [
        Month(start, over, [one for one in all_ if one not in over])
        for start, over in months_over(connection, all_, now, also=also)
    ]


def _remove(connection: Connection, month: Month, deadline: float) -> Iterator[Removed]:
    """Exchanges, then the trajectories that have none left, then what points to those. Raises PostponedError.

    The month is found again as long as it has a partition: one of them goes last.
    """
    for table in ("exchanges", "trajectories"):
        yield from _remove_rows(connection, month, table, deadline)
    for table in LEFT_OVER:
        if num_rows := _delete_left_over(connection, month, table, deadline):
            yield Removed(month.start, table, num_rows, is_dropped=False)
    yield from _remove_rows(connection, month, "reward_events", deadline)


def _remove_rows(connection: Connection, month: Month, table: str, deadline: float) -> Iterator[Removed]:
    if not _exists(connection, table, month):
        return
    dropped = _once(connection, month, partial(removal.drop, connection, month, table))
    num_rows = _delete(connection, month, table, deadline) if dropped is None else dropped
    if num_rows or dropped is not None:
        yield Removed(month.start, table, num_rows, dropped is not None)


def _delete(connection: Connection, month: Month, table: str, deadline: float) -> int:
    total, before = 0, _LAST_ID
    while True:
        act = partial(removal.delete_batch, connection, month, table, before)
        num_rows, go_on = _once(connection, month, act)
        total += num_rows
        if go_on is None:
            return total
        before = go_on
        _check_time(deadline)


def _delete_left_over(connection: Connection, month: Month, table: str, deadline: float) -> int:
    total = 0
    act = partial(removal.delete_left_over, connection, month, table)
    while num_rows := _once(connection, month, act):
        total += num_rows
        _check_time(deadline)
    return total


def _check_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise PostponedError("the time of this run is over")


def _once(connection: Connection, month: Month, act: Callable[[dict[str, Any]], T]) -> T:
    """One transaction. Where a table is in use, what waits behind us goes first, then it is tried again."""
    for _ in range(_ATTEMPTS):
        try:
            with connection.begin():
                values = removal.begin(connection, month)
                if values is None:
                    raise PostponedError("a step has claimed samples of it")
                return act(values)
        except OperationalError as error:
            if not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
                raise
            time.sleep(_PAUSE_SECONDS)
    raise PostponedError("a table is in use")


def _exists(connection: Connection, table: str, month: Month) -> bool:
    with connection.begin():
        return has_partition(connection, table, month.start)
