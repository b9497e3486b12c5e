"""The months that a file is about to write have their partitions before its rows come: no month of them waits in DEFAULT,
which retention does not look into.

Called between transactions. What cannot be made is left to `slipstream migrate`; the rows are written all the same.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError

from ledger.identifiers import time_of
from ledger.imports.chat_logs import dated
from ledger.imports.exported import Row, is_exported
from ledger.imports.lines import BadLineError, Line
from ledger.partitions import ensure_partitions, month_start

_MOST = 120  # months of one import: a file of made-up ids makes no thousands of tables
_LOG = structlog.get_logger()


class Months:
    """Of one import."""

    def __init__(self, engine: Engine, now: datetime) -> None:
        self._engine = engine
        self._now = now
        self._seen: set[datetime] = set()

    def prepare(self, lines: Sequence[Line]) -> None:
        new = {
            month
            for line in lines
            if isinstance(line.value, dict)
            for month in _months_of(line.value, self._now)
            if month not in self._seen and month < self._now
        }
        new = set(sorted(new)[: _MOST - len(self._seen)])
        if not new:
            return
        self._seen |= new
        try:
            with self._engine.connect() as connection:
                ensure_partitions(connection, self._now, also=new)
        except DatabaseError as error:  # no right to create one
            _LOG.warning("partitions_not_made", error=type(error).__name__)


def _months_of(row: Row, now: datetime) -> Iterator[datetime]:
    """Of its exchange, its trajectory and its judgements; nothing of a line that cannot be read."""
    try:
        is_row = is_exported(row)
    except BadLineError:
        return
    if not is_row:
        moment = dated(row, now)
        if moment is not None:
            yield month_start(moment)
        return
    events = row.get("rewards")
    judged = (
        [event.get("id") for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    )
    for id_ in (row.get("id"), row.get("trajectory_id"), *judged):
        try:
            yield month_start(time_of(UUID(id_)))
        except (AttributeError, TypeError, ValueError, OverflowError, OSError):
            continue
