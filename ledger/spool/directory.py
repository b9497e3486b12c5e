"""One process's directory of segments: who owns it (a lock), up to where it is committed (a cursor), what is damaged.

A directory appears under its name only when its lock is held, so no other process can take a newborn for an orphan.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import structlog

from ledger.audit.call_numbers import Spooled
from ledger.codec import UNDECODABLE, call_of, decode_held, with_request
from ledger.durable import sync_path
from ledger.errors import SpoolError
from ledger.request_body import derived
from ledger.spool.frames import ACCEPTED, Frame, Gap, frame_at, scan, seed_of

_LOG = structlog.get_logger()
_NEWBORN = ".new-"
CORRUPT = "corrupt"
_MOST_SPARES = 2


class Position(NamedTuple):
    """An offset in a segment. Positions are in order."""

    segment: int
    offset: int


@dataclass(slots=True)
class SpoolDirectory:
    """Opened by `create` (ours) or `adopt` (a dead process's). `num_skipped` counts damaged places."""

    path: Path
    lock: int
    num_skipped: int = 0
    _cursor: int = -1
    _damaged: set[Position] = field(default_factory=set)
    _spares: list[Path] = field(default_factory=list)

    @classmethod
    def create(cls, root: Path) -> "SpoolDirectory":
        try:
            root.mkdir(parents=True, exist_ok=True)
            name = f"{os.getpid()}-{uuid4().hex[:12]}"
            newborn = root / f"{_NEWBORN}{name}"
            newborn.mkdir()
            lock = _lock(newborn)
            path = newborn.rename(root / name)
            sync_path(root)
        except OSError as error:
            raise SpoolError(f"{SpoolError.__doc__} ({root}: {error.strerror})") from error
        assert lock is not None  # nobody looks into a newborn
        return cls(path, lock)

    @classmethod
    def adopt(cls, path: Path) -> "SpoolDirectory | None":
        """None if its process lives, or if it is gone, or if it may not be opened (logged)."""
        try:
            lock = _lock(path) if (path / "lock").exists() else None
        except OSError as error:  # such as another user's: the other orphans are adopted all the same
            _LOG.error("orphan_unreadable", path=str(path), error=error.strerror)
            return None
        return None if lock is None else cls(path, lock)

    def segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.segment"))

    def segment_path(self, number: int) -> Path:
        return self.path / f"{number:010d}.segment"

    def read_cursor(self) -> Position:
        return read_cursor(self.path)

    def write_cursor(self, position: Position) -> None:
        """Written over in one piece, which costs a hundredth of a new file. Not synced: a replay is harmless."""
        if self._cursor < 0:
            self._cursor = os.open(self.path / "cursor", os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(self._cursor, b"%020d %020d" % position, 0)

    def frames(self, number: int, start: int = 0, end: int | None = None) -> Iterator[Frame]:
        """The whole frames of a segment; what is damaged is skipped, counted and logged once."""
        with mapped(self.segment_path(number)) as buffer:
            for found in scan(buffer, start, len(buffer) if end is None else end, seed_of(number)):
                if isinstance(found, Gap):
                    self.skip(number, found.start, found.end - found.start)
                else:
                    yield found

    def decode(self, number: int, frame: Frame) -> Spooled | None:
        """The record in a frame, with its call's number; None, counted and logged, if a whole frame holds none."""
        try:
            held = decode_held(frame.payload)
            if request_at := held.get("request_at"):
                held = with_request(held, self._accepted(Position(*request_at), frame.call_id))
            return Spooled(derived(call_of(held)), held.get("number"))
        except UNDECODABLE:  # whole, but not a record
            self.skip(number, frame.start, frame.end - frame.start)
            return None

    def _accepted(self, place: Position, call_id: UUID) -> dict[str, Any] | None:
        """What a call was accepted with; None, logged, where that is damaged, or dropped since all is committed."""
        try:
            with mapped(self.segment_path(place.segment)) as buffer:
                frame = frame_at(buffer, place.offset, len(buffer), seed_of(place.segment))
        except FileNotFoundError:
            frame = None
        if frame is None or (frame.kind, frame.call_id) != (ACCEPTED, call_id):
            _LOG.error(
                "spool_request_missing", call_id=str(call_id), segment=place.segment, offset=place.offset
            )
            return None
        return decode_held(frame.payload)

    def skip(self, number: int, offset: int, num_bytes: int) -> None:
        place = Position(number, offset)
        if place not in self._damaged:
            self._damaged.add(place)
            self.num_skipped += 1
            _LOG.error(
                "spool_frame_skipped",
                segment=str(self.segment_path(number)),
                offset=offset,
                num_bytes=num_bytes,
            )

    def drop_segment(self, number: int, *, keep_spare: bool = False) -> None:
        """Delete a segment whose records are committed; a damaged one is set aside instead, never deleted.

        With `keep_spare` its file may become a later segment: what is on the disk already is written faster.
        """
        path = self.segment_path(number)
        if any(place.segment == number for place in self._damaged):
            aside = self.path.parent / CORRUPT
            aside.mkdir(exist_ok=True)
            path.rename(aside / f"{self.path.name}-{path.stem}.corrupt")
        elif keep_spare and len(self._spares) < _MOST_SPARES:
            self._spares.append(path.rename(path.with_suffix(".spare")))
        else:
            path.unlink()

    def take_spare(self) -> Path | None:
        """A file that was a segment, if there is one."""
        return self._spares.pop() if self._spares else None

    def drop_spares(self) -> None:
        """They hold what was in them."""
        while spare := self.take_spare():
            spare.unlink()

    def remove(self) -> None:
        """The directory and all that is committed in it."""
        for number in self.segments():
            self.drop_segment(number)
        for path in self.path.iterdir():
            path.unlink()
        self.path.rmdir()
        self.release()

    def release(self) -> None:
        for handle in (self.lock, self._cursor):
            if handle >= 0:
                os.close(handle)
        self.lock = self._cursor = -1


def read_cursor(path: Path) -> Position:
    """The start if there is none, or if a power cut emptied it: replaying is harmless."""
    try:
        segment, offset = (path / "cursor").read_text().split()
        return Position(int(segment), int(offset))
    except (FileNotFoundError, ValueError):
        return Position(0, 0)


def orphan_paths(root: Path) -> list[Path]:
    """Directories that may be a dead process's, oldest first."""
    found = [path for path in root.glob("*-*") if path.is_dir() and not path.name.startswith(_NEWBORN)]
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))


def _lock(path: Path) -> int | None:
    """The held lock of a directory; None if another process holds it or has removed the directory meanwhile."""
    try:
        handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_ino == (path / "lock").stat().st_ino:
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None


@contextmanager
def mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            yield buffer
