"""The numbers of a process' calls: 1, 2, 3 … in each hour of their ids, so that a lost call leaves a hole.

docs/decisions/0010-audit.md. Invariant: a number is given once its frame is written, and to one call.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from ledger.audit.number_set import NumberSet
from ledger.records import CallRecord

_HOUR = 3_600_000 << 80  # of a UUIDv7, whose first 48 bits are milliseconds


class Spooled(NamedTuple):
    """A call as a spool holds it. A spool of an older version has no numbers."""

    record: CallRecord
    number: int | None


def hour_of(call_id: UUID) -> int:
    """Hours since 1970."""
    return call_id.int // _HOUR


def moment_of(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * 3600, tz=UTC)


class CallNumbers:
    """Of one process. `given`: hour -> the highest number."""

    def __init__(self) -> None:
        self.given: dict[int, int] = {}
        self._waiting: dict[int, NumberSet] = {}

    def following(self, call_id: UUID) -> int:
        return self.given.get(hour_of(call_id), 0) + 1

    def give(self, call_id: UUID, number: int) -> None:
        hour = hour_of(call_id)
        if number > self.given.get(hour, 0):
            self.given[hour] = number

    def wait(self, spooled: Spooled) -> None:
        """Its end is durable, and not committed yet."""
        record, number = spooled
        if number is not None:
            self.give(record.call_id, number)
            self._waiting.setdefault(hour_of(record.call_id), NumberSet()).add(number)

    def commit(self, spooled: Iterable[Spooled]) -> None:
        for record, number in spooled:
            if number is not None and (waiting := self._waiting.get(hour_of(record.call_id))):
                waiting.remove(number)

    def take_waiting(self) -> dict[int, NumberSet]:
        """What waits, which is forgotten here."""
        waiting, self._waiting = self._waiting, {}
        return {hour: numbers for hour, numbers in waiting.items() if numbers}
