"""The spool: where a call is durable before its last byte leaves, and until Postgres has it (I4).

One process, one directory, one writer; any thread may call. Memory holds running calls, recent ones up to a limit,
and one batch, whatever waits on disk. docs/decisions/0001-capture-and-spool.md has the state machine and the failures.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ledger.audit.call_numbers import CallNumbers, Spooled
from ledger.codec import UNENCODABLE, call_pieces
from ledger.erasure.frames import Erased, erase_frames, segments_of
from ledger.records import CallRecord
from ledger.request_body import derived
from ledger.spool.batch import Batch, accepted_of, read_files
from ledger.spool.directory import Position, SpoolDirectory
from ledger.spool.ends import end_frame, given_up, numbered
from ledger.spool.failures import translated
from ledger.spool.frames import ACCEPTED, frame_head, seed_of
from ledger.spool.orphans import Orphan, adopt_orphans, interrupted
from ledger.spool.recent import RecentCalls
from ledger.spool.running import RunningCalls
from ledger.spool.segment import SegmentWriter

__all__ = ["Batch", "Orphan", "Spool", "adopt_orphans"]

SEGMENT_BYTES = 8 << 20
MEMORY_BYTES = 8 << 20


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
        self._numbers = CallNumbers()
        self._unwritten: list[Spooled] = []  # ended, but the disk took no record of it: with the next append
        self._recent = RecentCalls(memory_bytes)
        self._cursor = self._last_finished = Position(1, 0)
        self._writer = SegmentWriter(directory, 1, segment_bytes)
        self._seed = seed_of(1)
        self._ends: dict[int, int] = {}  # of the segments before
        self._num_waiting = self._num_mended = 0
        self._waiting_since: float | None = None
        self.num_unwritten = 0  # ends that the disk did not take
        self.num_lost = 0  # calls of which no frame is whole

    @classmethod
    def open(
        cls, root: Path, segment_bytes: int = SEGMENT_BYTES, memory_bytes: int = MEMORY_BYTES
    ) -> "Spool":
        """A new directory of this process under `root`. Raises SpoolError."""
        directory = SpoolDirectory.create(root)
        with translated(root):
            return cls(directory, segment_bytes, memory_bytes)

    @property
    def path(self) -> Path:
        return self._directory.path

    @property
    def num_skipped(self) -> int:
        """Damaged places found while reading."""
        return self._directory.num_skipped

    @property
    def num_running(self) -> int:
        return len(self._running)

    def accepted(self) -> dict[int, int]:
        """How many calls were accepted: by hour since 1970."""
        with self._mutex:
            return dict(self._numbers.given)

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
        with self._mutex, translated(self.path):
            number = self._numbers.following(record.call_id)
            payload = call_pieces(record, number=number)
            self._rotate_if_full()
            place = self._place()
            self._writer.write([frame_head(ACCEPTED, record.call_id, payload, self._seed), *payload])
            self._numbers.give(record.call_id, number)
            self._running.add(record, place, self._writer.end - place.offset, number)

    def append(self, records: Sequence[CallRecord]) -> None:
        """Calls ended: durable when this returns. One fsync, blocking. Raises SpoolFullError, SpoolError.

        Where it raises, the accepted ones become `interrupted` with the next append, as they would after a crash.
        """
        with self._mutex, translated(self.path):
            try:
                self._rotate_if_full()
                ended = numbered(records, self._running, self._numbers)
                self._write_finished([*self._unwritten, *ended])
            except OSError:
                self._give_up(records)
                raise
            except UNENCODABLE:
                if len(records) == 1:  # of several, the guilty one is found one by one
                    self._give_up(records)
                raise
            self._unwritten.clear()

    def _give_up(self, records: Sequence[CallRecord]) -> None:
        unwritten = given_up(records, self._running)
        self._unwritten += unwritten
        self.num_unwritten += len(unwritten)

    def _write_finished(self, ended: Sequence[Spooled]) -> None:
        frames = [end_frame(spooled, self._running, self._seed) for spooled in ended]
        segment, end = self._place()
        self._writer.write([piece for frame in frames for piece in frame])
        try:
            self._writer.sync()
        except OSError:
            self._running.distrust(segment)
            raise
        for spooled, frame in zip(ended, frames, strict=True):
            size = sum(map(len, frame))
            end += size
            self._note_finished(spooled, Position(segment, end), size)

    def _note_finished(self, spooled: Spooled, end: Position, num_bytes: int) -> None:
        call_id = spooled.record.call_id
        self._numbers.wait(spooled)
        num_bytes += self._running.remove(call_id, end)
        self._recent.add(spooled, end, num_bytes)
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
            return read_files(self._directory, self._cursor, ends, max_records)
        is_all = is_complete and len(recent) < max_records
        found = [Spooled(derived(entry.spooled.record), entry.spooled.number) for entry in recent]
        return Batch(found, place if is_all else recent[-1].end)

    def commit(self, batch: Batch) -> None:
        """The batch is in Postgres: move on, and drop segments that nothing needs any more."""
        with self._mutex, translated(self.path):
            if batch.end > self._cursor:
                self._directory.write_cursor(batch.end)
                self._cursor = batch.end
            is_all = self._cursor >= self._last_finished
            self._recent.forget(self._cursor, is_all=is_all)
            self._num_waiting = 0 if is_all else max(0, self._num_waiting - len(batch.spooled))
            self._waiting_since = None if is_all else self._waiting_since
            self._numbers.commit(batch.spooled)
            if is_all and self._directory.num_skipped > self._num_mended:
                self._mend()
            if self._directory.num_skipped == self._num_mended:
                self._drop_segments()

    def _mend(self) -> None:
        """All is committed that could be read: the other ends are damaged, and their calls are now `interrupted`."""
        lost = self._numbers.take_waiting()
        ends = {**self._ends, self._writer.number: self._writer.end}
        found = [
            Spooled(interrupted(record), number)
            for record, number in accepted_of(self._directory, ends, lost)
        ]
        self.num_lost += sum(map(len, lost.values())) - len(found)
        self._unwritten += found
        if self._unwritten:
            self._rotate_if_full()
            self._write_finished(self._unwritten)
            self._unwritten.clear()
        self._num_mended = self._directory.num_skipped

    def _drop_segments(self) -> None:
        for number in sorted(self._ends):
            if number >= self._cursor.segment or self._running.needs(number, self._cursor):
                break
            self._directory.drop_segment(number, keep_spare=True)
            self._running.forget(number)
            del self._ends[number]

    def erase(self, calls: Erased) -> int:
        """Empty their frames; unless their ids are known, what these files held before, too. By the thread that reads batches."""
        with self._mutex, translated(self.path):
            ends = {**self._ends, self._writer.number: self._writer.end}
            segments = segments_of(self._directory, ends, is_wiped=callable(calls))
        return erase_frames(segments, calls)

    def close(self) -> None:
        """Leave nothing behind if all is committed; otherwise leave it to be adopted."""
        with self._mutex, translated(self.path):
            self._writer.close()
            if self._cursor == self._place() and not (self._running or self._unwritten):
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
