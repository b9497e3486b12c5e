"""Calls that began and have not ended: an end refers to its accepted frame instead of repeating the request.

Invariant: no segment is dropped while a call that began in it runs, or while an uncommitted end refers to it.
"""

from dataclasses import dataclass, field
from uuid import UUID

from ledger.records import CallRecord
from ledger.spool.directory import Position


@dataclass(slots=True)
class Began:
    record: CallRecord
    place: Position
    num_bytes: int
    number: int
    is_trusted: bool = True  # the disk keeps it, or will with the next fsync


@dataclass(slots=True)
class RunningCalls:
    _began: dict[UUID, Began] = field(default_factory=dict)
    _needed_until: dict[int, Position] = field(default_factory=dict)  # segment -> where the last end ends

    def __len__(self) -> int:
        return len(self._began)

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._began

    def add(self, record: CallRecord, place: Position, num_bytes: int, number: int) -> None:
        """Its accepted frame lies at `place`."""
        self._began[record.call_id] = Began(record, place, num_bytes, number)

    def accepted(self, call_id: UUID) -> Began | None:
        return self._began.get(call_id)

    def number_of(self, call_id: UUID) -> int | None:
        """None: it was not accepted."""
        began = self._began.get(call_id)
        return began.number if began else None

    def place_of_request(self, record: CallRecord) -> Position | None:
        """Where the request of an ended call lies; None where its end has to hold it."""
        began = self._began.get(record.call_id)
        if began is None or not began.is_trusted or not _is_same_request(began.record, record):
            return None
        return began.place

    def remove(self, call_id: UUID, end: Position) -> int:
        """The call ended, durably; its finished frame ends at `end`. The bytes of its accepted frame."""
        began = self._began.pop(call_id, None)
        if began is None:
            return 0
        if began.place.segment < end.segment:
            self._needed_until[began.place.segment] = end
        return began.num_bytes

    def distrust(self, segment: int) -> None:
        """The disk did not keep what it was told to: no end may refer to this segment."""
        for began in self._began.values():
            if began.place.segment == segment:
                began.is_trusted = False

    def needs(self, segment: int, cursor: Position) -> bool:
        if self._needed_until.get(segment, cursor) > cursor:
            return True
        return any(began.place.segment == segment for began in self._began.values())

    def forget(self, segment: int) -> None:
        self._needed_until.pop(segment, None)


def _is_same_request(one: CallRecord, other: CallRecord) -> bool:
    """The very objects: an end is its accepted record with more fields."""
    return (
        one.raw_request is other.raw_request
        and one.prompt_key == other.prompt_key
        and one.messages is other.messages
        and one.request is other.request
    )
