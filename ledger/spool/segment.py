"""The segment that is being written: only whole frames, also when the disk fills up in the middle of one.

Its file is as long as it will be before the first byte is written, or was a segment before: then an fsync writes data
alone and no journal, which halves its time.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from ledger.durable import sync_path
from ledger.spool.directory import SpoolDirectory
from ledger.spool.frames import END

_MOST_PIECES = 512  # of one system call


class SegmentWriter:
    """`end` is the offset after the last whole frame. Once `is_broken`, begin another segment."""

    def __init__(self, directory: SpoolDirectory, number: int, num_bytes: int) -> None:
        """Raises OSError."""
        self.number = number
        self.end = 0
        self.is_broken = False
        path = directory.segment_path(number)
        spare = directory.take_spare()
        self._file = os.open(spare or path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if spare is None:
                with suppress(OSError):  # it grows as it is written, then
                    os.posix_fallocate(self._file, 0, num_bytes)
            else:
                os.pwrite(self._file, END, 0)
                spare.rename(path)
            sync_path(directory.path)
        except OSError:
            os.close(self._file)
            raise

    def write(self, pieces: Sequence[bytes]) -> None:
        """All of it or nothing. Raises OSError."""
        end = self.end
        try:
            for first in range(0, len(pieces), _MOST_PIECES):
                end = self._write_some(pieces[first : first + _MOST_PIECES], end)
        except OSError:
            self._cut_back()
            raise
        self.end = end

    def _write_some(self, pieces: Sequence[bytes], at: int) -> int:
        """The offset after them; END stands there."""
        end = at + sum(map(len, pieces))
        written = os.pwritev(self._file, [*pieces, END], at)
        if written < end + len(END) - at:
            rest = memoryview(b"".join([*pieces, END]))[written:]
            at += written
            while rest:
                written = os.pwrite(self._file, rest, at)
                rest, at = rest[written:], at + written
        return end

    def sync(self) -> None:
        """Raises OSError; what was written may then be on the disk or not, and the file is not trusted again."""
        try:
            os.fdatasync(self._file)
        except OSError:
            self.is_broken = True
            raise

    def close(self) -> None:
        os.close(self._file)

    def _cut_back(self) -> None:
        try:
            os.pwrite(self._file, END, self.end)
        except OSError:
            self.is_broken = True
