"""What is read back from a spool's files: a batch to commit, and calls whose end is damaged."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ledger.audit.call_numbers import Spooled, hour_of
from ledger.audit.number_set import NumberSet
from ledger.records import CallRecord
from ledger.spool.directory import Position, SpoolDirectory
from ledger.spool.frames import ACCEPTED, FINISHED

BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Finished calls that are not committed yet, and the position after them."""

    spooled: list[Spooled]
    end: Position

    @property
    def records(self) -> list[CallRecord]:
        return [record for record, _ in self.spooled]


def read_files(
    directory: SpoolDirectory, cursor: Position, ends: Mapping[int, int], max_records: int
) -> Batch:
    """The oldest finished calls behind the cursor. `ends`: segment -> where it ends."""
    found: list[Spooled] = []
    end, num_bytes = cursor, 0
    for number in (n for n in sorted(ends) if n >= cursor.segment):
        start = cursor.offset if number == cursor.segment else 0
        end = Position(number, start)
        for frame in directory.frames(number, start, ends[number]):
            if len(found) >= max_records or num_bytes > BATCH_BYTES:
                return Batch(found, end)
            if frame.kind == FINISHED and (spooled := directory.decode(number, frame)):
                found.append(spooled)
                num_bytes += len(frame.payload)
            end = Position(number, frame.end)
        end = Position(number, ends[number])
    return Batch(found, end)


def accepted_of(
    directory: SpoolDirectory, ends: Mapping[int, int], wanted: Mapping[int, NumberSet]
) -> Iterator[Spooled]:
    """As they were accepted: calls with these numbers, by hour. Each whole accepted frame is decoded: a rare need."""
    for number in sorted(ends):
        for frame in directory.frames(number, 0, ends[number]):
            if frame.kind == ACCEPTED and (numbers := wanted.get(hour_of(frame.call_id))):
                spooled = directory.decode(number, frame)
                if spooled is not None and spooled.number in numbers:
                    yield spooled
