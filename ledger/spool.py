"""The spool: where a call is durable before its last byte leaves, and until Postgres has it (I4).

One process, one directory, one writer; any thread may call. Memory holds the ids of running calls and one batch,
whatever waits on disk. docs/decisions/0001-capture-and-spool.md has the state machine and the failures.
"""

import errno
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ledger.codec import encode_call
from ledger.errors import SpoolError, SpoolFullError
from ledger.records import CallRecord
from ledger.spool_directory import Position, SpoolDirectory
from ledger.spool_frames import ACCEPTED, FINISHED, encode_frame
from ledger.spool_orphans import Orphan, adopt_orphans, interrupted
from ledger.spool_segment import SegmentWriter

__all__ = ["Batch", "Orphan", "Spool", "adopt_orphans"]

SEGMENT_BYTES = 32 << 20
BATCH_BYTES = 16 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Batch:
    """Finished calls that are not committed yet, and the position after them."""

    records: list[CallRecord]
    end: Position


class Spool:
    """Example: accept(call) … append([finished]) … batch = read_batch(500); record_calls(…, batch.records); commit(batch)."""

    def __init__(self, directory: SpoolDirectory, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._mutex = threading.Lock()
        self._running: dict[UUID, int] = {}  # call -> the segment that it was accepted in
        self._unwritten: list[
            CallRecord
        ] = []  # ended, but the disk took no record of it; waits for the next append
        self._cursor = Position(1, 0)
        self._writer = SegmentWriter(directory, 1)

    @classmethod
    def open(cls, root: Path, segment_bytes: int = SEGMENT_BYTES) -> "Spool":
        """A new directory of this process under `root`. Raises SpoolError."""
        directory = SpoolDirectory.create(root)
        with _translated(root):
            return cls(directory, segment_bytes)

    @property
    def path(self) -> Path:
        return self._directory.path

    @property
    def num_skipped(self) -> int:
        """Damaged places found while reading."""
        return self._directory.num_skipped

    @property
    def num_waiting_bytes(self) -> int:
        """What is not committed yet."""
        with self._mutex:
            sizes = {number: self._end_of(number) for number in self._directory.segments()}
            return sum(size for n, size in sizes.items() if n >= self._cursor.segment) - self._cursor.offset

    def accept(self, record: CallRecord) -> None:
        """A call began. Not fsynced: after a kill -9 it is recorded as interrupted. Raises SpoolError."""
        frame = encode_frame(ACCEPTED, record.call_id, encode_call(record))
        with self._mutex, _translated(self.path):
            self._rotate_if_full()
            self._writer.write(frame)
            self._running[record.call_id] = self._writer.number

    def append(self, records: Sequence[CallRecord]) -> None:
        """Calls ended: durable when this returns. One fsync, blocking. Raises SpoolFullError, SpoolError.

        Where it raises, the accepted ones become `interrupted` with the next append, as they would after a crash.
        """
        frames = _finished(records)
        with self._mutex, _translated(self.path):
            try:
                self._rotate_if_full()
                self._writer.write(_finished(self._unwritten) + frames)
                self._writer.sync()
            except OSError:
                self._unwritten += [interrupted(r) for r in records if r.call_id in self._running]
                raise
            for record in (*self._unwritten, *records):
                self._running.pop(record.call_id, None)
            self._unwritten.clear()

    def read_batch(self, max_records: int) -> Batch:
        """The oldest uncommitted calls, read from the files. The same again until `commit`."""
        with self._mutex:
            ends = {number: self._end_of(number) for number in self._directory.segments()}
        records: list[CallRecord] = []
        end, num_bytes = self._cursor, 0
        for number in (n for n in sorted(ends) if n >= self._cursor.segment):
            start = self._cursor.offset if number == self._cursor.segment else 0
            end = Position(number, start)
            for frame in self._directory.frames(number, start, ends[number]):
                if len(records) >= max_records or num_bytes > BATCH_BYTES:
                    return Batch(records, end)
                if frame.kind == FINISHED and (record := self._directory.decode(number, frame)):
                    records.append(record)
                    num_bytes += len(frame.payload)
                end = Position(number, frame.end)
            end = Position(number, ends[number])
        return Batch(records, end)

    def commit(self, batch: Batch) -> None:
        """The batch is in Postgres: move on, and drop segments that nothing needs any more."""
        with self._mutex, _translated(self.path):
            if batch.end > self._cursor:
                self._directory.write_cursor(batch.end)
                self._cursor = batch.end
            for number in self._directory.segments():
                if number >= self._cursor.segment or number in self._running.values():
                    break
                self._directory.drop_segment(number)

    def close(self) -> None:
        """Leave nothing behind if all is committed; otherwise leave it to be adopted."""
        with self._mutex, _translated(self.path):
            self._writer.close()
            is_empty = self._cursor == Position(self._writer.number, self._writer.end)
            if is_empty and not self._running:
                self._directory.remove()
            self._directory.release()

    def _end_of(self, number: int) -> int:
        is_active = number == self._writer.number
        return self._writer.end if is_active else self._directory.segment_path(number).stat().st_size

    def _rotate_if_full(self) -> None:
        if self._writer.is_broken or self._writer.end >= self._segment_bytes:
            following = SegmentWriter(self._directory, self._writer.number + 1)
            self._writer.close()
            self._writer = following


def _finished(records: Sequence[CallRecord]) -> bytes:
    return b"".join(encode_frame(FINISHED, record.call_id, encode_call(record)) for record in records)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = SpoolFullError if error.errno in _FULL else SpoolError
        raise kind(f"{kind.__doc__} ({path}: {error.strerror})") from error
