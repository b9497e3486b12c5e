"""The spool: where a call is durable before its last byte leaves, and until Postgres has it (I4).

One process, one directory, one writer; any thread may call. Memory holds running calls, recent ones up to a limit,
and one batch, whatever waits on disk. docs/decisions/0001-capture-and-spool.md has the state machine and the failures.
"""

import errno
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.codec import answer_pieces, call_pieces
from ledger.errors import SpoolError, SpoolFullError
from ledger.records import CallRecord
from ledger.request_body import derived
from ledger.spool_directory import Position, SpoolDirectory
from ledger.spool_frames import ACCEPTED, FINISHED, frame_head, seed_of
from ledger.spool_orphans import Orphan, adopt_orphans, interrupted
from ledger.spool_recent import RecentCalls
from ledger.spool_running import RunningCalls
from ledger.spool_segment import SegmentWriter

__all__ = ["Batch", "Orphan", "Spool", "adopt_orphans"]

SEGMENT_BYTES = 8 << 20
BATCH_BYTES = 16 << 20
MEMORY_BYTES = 8 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Batch:
    """Finished calls that are not committed yet, and the position after them."""

    records: list[CallRecord]
    end: Position


class Spool:
    """Example: accept(call) … append([finished]) … batch = read_batch(500); record_calls(…, batch.records); commit(batch)."""

    def __init__(
        self,
        directory: SpoolDirectory,
        segment_bytes: int = SEGMENT_BYTES,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._mutex = threading.Lock()
        self._running = RunningCalls()
        self._unwritten: list[
            CallRecord
        ] = []  # ended, but the disk took no record of it: with the next append
        self._recent = RecentCalls(memory_bytes)
        self._cursor = self._last_finished = Position(1, 0)
        self._writer = SegmentWriter(directory, 1, segment_bytes)
        self._seed = seed_of(1)
        self._ends: dict[int, int] = {}  # of the segments before
        self._num_waiting = 0
        self._waiting_since: float | None = None

    @classmethod
    def open(
        cls, root: Path, segment_bytes: int = SEGMENT_BYTES, memory_bytes: int = MEMORY_BYTES
    ) -> "Spool":
        """A new directory of this process under `root`. Raises SpoolError."""
        directory = SpoolDirectory.create(root)
        with _translated(root):
            return cls(directory, segment_bytes, memory_bytes)

    @property
    def path(self) -> Path:
        return self._directory.path

    @property
    def num_skipped(self) -> int:
        """Damaged places found while reading."""
        return self._directory.num_skipped

    @property
    def num_waiting(self) -> int:
        """Finished calls that are not committed yet."""
        return self._num_waiting

    @property
    def num_waiting_bytes(self) -> int:
        """What is not committed yet, as bytes of the segments from the cursor on."""
        with self._mutex:
            ends = {**self._ends, self._writer.number: self._writer.end}
            return sum(end for n, end in ends.items() if n >= self._cursor.segment) - self._cursor.offset

    @property
    def waiting_seconds(self) -> float:
        """For how long something has waited without a moment in which all was committed."""
        since = self._waiting_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_idle(self) -> bool:
        """Whether `accept` would only copy into the page cache: nobody writes, and no segment has to be begun."""
        return not self._mutex.locked() and not self._is_full()

    def accept(self, record: CallRecord) -> None:
        """A call began. Not fsynced: after a kill -9 it is recorded as interrupted. Raises SpoolError."""
        payload = call_pieces(record)
        with self._mutex, _translated(self.path):
            self._rotate_if_full()
            place = self._place()
            self._writer.write([frame_head(ACCEPTED, record.call_id, payload, self._seed), *payload])
            self._running.add(record, place, self._writer.end - place.offset)

    def append(self, records: Sequence[CallRecord]) -> None:
        """Calls ended: durable when this returns. One fsync, blocking. Raises SpoolFullError, SpoolError.

        Where it raises, the accepted ones become `interrupted` with the next append, as they would after a crash.
        """
        with self._mutex, _translated(self.path):
            try:
                self._rotate_if_full()
                self._write_finished([*self._unwritten, *records])
            except OSError:
                self._unwritten += [interrupted(r) for r in records if r.call_id in self._running]
                raise
            self._unwritten.clear()

    def _write_finished(self, records: Sequence[CallRecord]) -> None:
        pieces: list[bytes] = []
        sizes: list[int] = []
        for record in records:
            payload = self._payload(record)
            frame = [frame_head(FINISHED, record.call_id, payload, self._seed), *payload]
            pieces += frame
            sizes.append(sum(map(len, frame)))
        segment, end = self._place()
        self._writer.write(pieces)
        try:
            self._writer.sync()
        except OSError:
            self._running.distrust(segment)
            raise
        for record, size in zip(records, sizes, strict=True):
            end += size
            self._note_finished(record, Position(segment, end), size)

    def _payload(self, record: CallRecord) -> list[bytes]:
        place = self._running.place_of_request(record)
        return call_pieces(record) if place is None else answer_pieces(record, place)

    def _note_finished(self, record: CallRecord, end: Position, num_bytes: int) -> None:
        num_bytes += self._running.remove(record.call_id, end)
        self._recent.add(record, end, num_bytes)
        self._last_finished = end
        self._num_waiting += 1
        self._waiting_since = self._waiting_since or time.monotonic()

    def read_batch(self, max_records: int) -> Batch:
        """The oldest uncommitted calls, from memory or else from the files. The same again until `commit`."""
        with self._mutex:
            recent, is_complete = self._recent.first(max_records), self._recent.is_complete
            place = self._place()
            ends = {**self._ends, place.segment: place.offset}
        if not recent and not is_complete:
            return self._read_files(max_records, ends)
        is_all = is_complete and len(recent) < max_records
        return Batch([derived(entry.record) for entry in recent], place if is_all else recent[-1].end)

    def _read_files(self, max_records: int, ends: dict[int, int]) -> Batch:
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
            is_all = self._cursor >= self._last_finished
            self._recent.forget(self._cursor, is_all=is_all)
            self._num_waiting = 0 if is_all else max(0, self._num_waiting - len(batch.records))
            self._waiting_since = None if is_all else self._waiting_since
            self._drop_segments()

    def _drop_segments(self) -> None:
        for number in sorted(self._ends):
            if number >= self._cursor.segment or self._running.needs(number, self._cursor):
                break
            self._directory.drop_segment(number, keep_spare=True)
            self._running.forget(number)
            del self._ends[number]

    def close(self) -> None:
        """Leave nothing behind if all is committed; otherwise leave it to be adopted."""
        with self._mutex, _translated(self.path):
            self._writer.close()
            if self._cursor == self._place() and not self._running:
                self._directory.remove()
            self._directory.release()

    def _place(self) -> Position:
        return Position(self._writer.number, self._writer.end)

    def _is_full(self) -> bool:
        return self._writer.is_broken or self._writer.end >= self._segment_bytes

    def _rotate_if_full(self) -> None:
        """What later ends will refer to is made durable first."""
        if not self._is_full():
            return
        following = SegmentWriter(self._directory, self._writer.number + 1, self._segment_bytes)
        try:
            self._writer.sync()
        except OSError:
            self._running.distrust(self._writer.number)
        self._writer.close()
        self._ends[self._writer.number] = self._writer.end
        self._writer, self._seed = following, seed_of(following.number)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = SpoolFullError if error.errno in _FULL else SpoolError
        raise kind(f"{kind.__doc__} ({path}: {error.strerror})") from error
