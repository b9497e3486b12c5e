"""Frames of erased calls, emptied where they lie: a skeleton of the same length, with its CRC, stands in their place.

Invariant: a frame stays whole, so whoever reads on, or replays it after a crash, finds a call and no damage. Only the
one who may read a file calls this: the owner's writer thread, or whoever holds its lock.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import structlog

from ledger.codec import UNDECODABLE, answer_pieces, call_of, call_pieces, decode_held
from ledger.erasure.skeleton import skeleton_of
from ledger.records import CallRecord
from ledger.request_body import derived
from ledger.spool.directory import SpoolDirectory
from ledger.spool.frames import END, Frame, Gap, encode_frame, scan, seed_of

IsErased = Callable[[CallRecord], bool]
Erased = IsErased | set[UUID]  # or their ids, where they are known
_LOG = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Segment:
    """Frames of one file up to `end`; None = up to where they end."""

    path: Path
    number: int
    end: int | None = None


def segments_of(directory: SpoolDirectory, ends: Mapping[int, int], *, is_wiped: bool) -> list[Segment]:
    """`is_wiped`: with what was in these files before, in spare ones and behind the ends; nobody may write meanwhile."""
    segments = [Segment(directory.segment_path(number), number, ends[number]) for number in sorted(ends)]
    if is_wiped:
        directory.drop_spares()
        for segment in segments:
            wipe_behind(segment)
    return segments


def frames_of(segments: Sequence[Segment]) -> Iterator[tuple[Segment, Frame | Gap]]:
    for segment in segments:
        data = segment.path.read_bytes()
        end = len(data) if segment.end is None else segment.end
        for found in scan(data, 0, end, seed_of(segment.number)):
            yield segment, found


def calls_in(segments: Sequence[Segment], is_erased: IsErased) -> set[UUID]:
    """Calls that are to be erased and are not yet. An end that refers to its request belongs to its acceptance."""
    found = set()
    for _, frame in frames_of(segments):
        call = call_in(frame) if isinstance(frame, Frame) else None
        if call is not None and not call.is_erased and is_erased(call):
            found.add(call.call_id)
    return found


def call_in(frame: Frame) -> CallRecord | None:
    found = _read(frame)
    return found and found.record


class _Read(NamedTuple):
    record: CallRecord
    number: int | None
    request_at: tuple[int, int] | None  # of an end that does not hold its request


def _read(frame: Frame) -> _Read | None:
    try:
        held = decode_held(frame.payload)
        request_at = held.get("request_at")
        if request_at:
            held |= {"messages": None, "request": {}}
        return _Read(derived(call_of(held)), held.get("number"), request_at)
    except UNDECODABLE:
        return None


def erase_frames(segments: Sequence[Segment], erased: Erased, needles: Sequence[bytes] = ()) -> int:
    """Empties the frames of these calls; how many. Damaged bytes that hold a needle are wiped.

    Where their ids are known no other frame is decoded.
    """
    calls = calls_in(segments, erased) if callable(erased) else erased
    num_erased = 0
    for segment, found in frames_of(segments) if calls or needles else ():
        if isinstance(found, Gap):
            num_erased += _wipe_gap(segment, found, needles)
        elif found.call_id in calls and (new := _emptied(found, segment.number)):
            write_at(segment.path, found.start, new)
            num_erased += 1
    return num_erased


def wipe_behind(segment: Segment) -> None:
    """What the file held before it became this segment. Not fsynced: nobody waits for that with a lock."""
    assert segment.end is not None
    start, size = segment.end + len(END), segment.path.stat().st_size
    if size > start:
        write_at(segment.path, start, bytes(size - start), is_synced=False)


def write_at(path: Path, offset: int, data: bytes, *, is_synced: bool = True) -> None:
    """Durable when it returns, unless that does not matter."""
    handle = os.open(path, os.O_WRONLY)
    try:
        view = memoryview(data)
        while view:
            written = os.pwrite(handle, view, offset)
            view, offset = view[written:], offset + written
        if is_synced:
            os.fdatasync(handle)
    finally:
        os.close(handle)


def _emptied(frame: Frame, number: int) -> bytes | None:
    """The frame with a skeleton in it. What follows the MessagePack is ignored, so it is filled up with zeros."""
    found = _read(frame)
    if found is None or found.record.is_erased:
        return None
    bare = replace(skeleton_of(found.record), request_id="", requested_model="")
    if found.request_at and found.number is not None:
        skeleton = b"".join(answer_pieces(bare, found.request_at, found.number))
    else:
        skeleton = b"".join(call_pieces(bare, number=found.number))
    if len(skeleton) > len(frame.payload):
        _LOG.error("frame_not_erased", call_id=str(frame.call_id))
        return None
    payload = skeleton.ljust(len(frame.payload), b"\0")
    return encode_frame(frame.kind, frame.call_id, payload, seed_of(number))


def _wipe_gap(segment: Segment, gap: Gap, needles: Sequence[bytes]) -> int:
    with segment.path.open("rb") as file:
        file.seek(gap.start)
        held = file.read(gap.end - gap.start)
    if not any(needle in held for needle in needles):
        return 0
    write_at(segment.path, gap.start, bytes(len(held)))
    return 1
