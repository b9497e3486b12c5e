"""The segment that is being written: only whole frames, also when the disk fills up in the middle of one."""

import os

from ledger.durable import sync_path
from ledger.spool_directory import SpoolDirectory


class SegmentWriter:
    """`end` is the offset after the last whole frame. Once `is_broken`, begin another segment."""

    def __init__(self, directory: SpoolDirectory, number: int) -> None:
        path = directory.segment_path(number)
        self.number = number
        self.end = 0
        self.is_broken = False
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        sync_path(directory.path)

    def write(self, frames: bytes) -> None:
        """All of it or nothing. Raises OSError."""
        rest = memoryview(frames)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            self._cut_back()
            raise
        self.end += len(frames)

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
            os.ftruncate(self._file, self.end)
        except OSError:
            self.is_broken = True
