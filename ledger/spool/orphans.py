"""Directories that dead processes left: their calls are recorded by whoever finds them, each by one adopter."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from ledger.audit.call_numbers import Spooled
from ledger.records import CallRecord
from ledger.spool.directory import Position, SpoolDirectory, orphan_paths
from ledger.spool.frames import ACCEPTED
from ledger.vocabulary import ExchangeStatus


def interrupted(record: CallRecord) -> CallRecord:
    """A call of which nothing is known but that it was accepted."""
    return replace(record, status=ExchangeStatus.INTERRUPTED, is_delivered=False, choices=[])


@dataclass(frozen=True, slots=True)
class Orphan:
    """Record all of `records()`, commit, then `remove()`. Not removed, it is found again."""

    directory: SpoolDirectory

    @property
    def process(self) -> str:
        """The name of the process that died."""
        return self.directory.path.name

    def records(self) -> Iterator[CallRecord]:
        """What `spooled` yields, without the numbers."""
        return (record for record, _ in self.spooled())

    def spooled(self) -> Iterator[Spooled]:
        """Finished calls that may not be committed, in order; then, as interrupted, those that were running."""
        cursor = self.directory.read_cursor()
        running: dict[UUID, Position] = {}
        finished: set[UUID] = set()
        for number in self.directory.segments():
            for frame in self.directory.frames(number):
                place = Position(number, frame.start)
                if frame.kind == ACCEPTED:
                    running[frame.call_id] = place
                    continue
                finished.add(frame.call_id)
                if place >= cursor and (spooled := self.directory.decode(number, frame)):
                    yield spooled
        for call_id, place in running.items():
            if call_id not in finished:
                yield from self._interrupted(place)

    def remove(self) -> None:
        """Everything is committed. Damaged segments are set aside, not deleted."""
        self.directory.remove()

    def _interrupted(self, place: Position) -> Iterator[Spooled]:
        frame = next(self.directory.frames(place.segment, place.offset))
        spooled = self.directory.decode(place.segment, frame)
        if spooled is not None:
            yield Spooled(interrupted(spooled.record), spooled.number)


def adopt_orphans(root: Path) -> Iterator[Orphan]:
    """Each directory under `root` whose process is dead, held while it is the current one of this iteration."""
    for path in orphan_paths(root):
        directory = SpoolDirectory.adopt(path)
        if directory is None:
            continue
        try:
            yield Orphan(directory)
        finally:
            directory.release()
