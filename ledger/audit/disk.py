"""What an audit reads from the disk: the directories of a spool, of living and dead processes, and rejected/.

It takes no lock and changes nothing. What disappears while it reads was committed before.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ledger.audit.call_numbers import hour_of
from ledger.audit.comparison import Held, Key
from ledger.audit.number_set import NumberSet
from ledger.audit.rejected import read_rejected, rejected_paths
from ledger.codec import UNDECODABLE, decode_held
from ledger.spool.directory import CORRUPT, Position, mapped, orphan_paths, read_cursor
from ledger.spool.frames import FINISHED, Frame, scan, seed_of


@dataclass(slots=True)
class SpoolFound:
    held: defaultdict[Key, Held] = field(default_factory=lambda: defaultdict(Held))
    processes: set[str] = field(default_factory=set)  # whose directories are there
    corrupt: list[Path] = field(default_factory=list)
    rejected: list[Path] = field(default_factory=list)
    num_unnumbered: int = 0  # rejected files that hold no number: an older version's


def read_spool(root: Path) -> SpoolFound:
    found = SpoolFound()
    for directory in orphan_paths(root):
        found.processes.add(directory.name)
        _read_directory(found, directory)
    for path in rejected_paths(root):
        _read_rejected(found, path)
    found.corrupt = sorted((root / CORRUPT).glob("*.corrupt"))
    return found


def _read_directory(found: SpoolFound, directory: Path) -> None:
    """An end behind which the cursor has moved waits no more: nobody will write it."""
    cursor = read_cursor(directory)
    passed: defaultdict[Key, NumberSet] = defaultdict(NumberSet)
    for segment in sorted(directory.glob("*.segment")):
        for place, frame, number in _numbered_frames(segment):
            key = directory.name, hour_of(frame.call_id)
            if frame.kind != FINISHED:
                found.held[key].accepted.add(number)
            elif place >= cursor:
                found.held[key].finished.add(number)
            else:
                passed[key].add(number)
    for key, numbers in passed.items():
        for first, end in numbers.ranges():
            found.held[key].accepted.remove(first, end)


def _numbered_frames(segment: Path) -> Iterator[tuple[Position, Frame, int]]:
    with suppress(OSError, ValueError), mapped(segment) as buffer:  # committed and gone, or no segment
        for frame in scan(buffer, 0, len(buffer), seed_of(int(segment.stem))):
            if isinstance(frame, Frame) and (number := _number_in(frame.payload)) is not None:
                yield Position(int(segment.stem), frame.start), frame, number


def _number_in(payload: bytes) -> int | None:
    try:
        number = decode_held(payload).get("number")
    except UNDECODABLE:
        return None
    return number if isinstance(number, int) else None


def _read_rejected(found: SpoolFound, path: Path) -> None:
    try:
        process, (record, number) = read_rejected(path)
    except FileNotFoundError:  # committed meanwhile
        return
    except UNDECODABLE:
        process = number = None
    found.rejected.append(path)
    if process is None or number is None:
        found.num_unnumbered += 1
    else:
        found.held[process, hour_of(record.call_id)].rejected.add(number)
