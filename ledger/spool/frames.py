"""Frames: how a record lies in a segment, so that a torn or flipped byte costs one record and not the file.

marker (4) · kind (1) · call id (16) · length (4) · CRC-32 of all that and the payload (4) · payload. No payload holds
the marker, so the next frame after a damaged one is found by looking for it. The CRC begins with the segment's seed:
what an earlier segment left in a file that is used again is not taken for a frame. END follows the last frame.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from uuid import UUID

MARKER = b"\xf5SLP"
END = b"\0\0\0\0"
ACCEPTED = b"A"
FINISHED = b"F"
_UNCHECKED = struct.Struct(">4sc16sI")
_CRC = struct.Struct(">I")
HEADER_BYTES = _UNCHECKED.size + _CRC.size

Buffer = bytes | mmap


@dataclass(frozen=True, slots=True)
class Frame:
    kind: bytes
    call_id: UUID
    payload: bytes
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that hold no whole frame."""

    start: int
    end: int


def seed_of(segment: int) -> int:
    """Where the CRCs of a segment begin."""
    return zlib.crc32(segment.to_bytes(8, "big"))


def frame_head(kind: bytes, call_id: UUID, payload: Sequence[bytes], seed: int = 0) -> bytes:
    """What stands before a payload, which is given in pieces."""
    head = _UNCHECKED.pack(MARKER, kind, call_id.bytes, sum(map(len, payload)))
    checksum = zlib.crc32(head, seed)
    for piece in payload:
        checksum = zlib.crc32(piece, checksum)
    return head + _CRC.pack(checksum)


def encode_frame(kind: bytes, call_id: UUID, payload: bytes, seed: int = 0) -> bytes:
    return frame_head(kind, call_id, [payload], seed) + payload


def scan(buffer: Buffer, start: int, end: int, seed: int = 0) -> Iterator[Frame | Gap]:
    """Everything between two offsets, in order, with nothing left out but what follows END."""
    position = start
    while position < end:
        found = frame_at(buffer, position, end, seed)
        if found is None:
            following = _next_frame(buffer, position + 1, end, seed)
            if following == end and buffer[position : position + len(END)] == END[: end - position]:
                return
            yield Gap(position, following)
            position = following
        else:
            yield found
            position = found.end


def frame_at(buffer: Buffer, position: int, end: int, seed: int = 0) -> Frame | None:
    body = position + HEADER_BYTES
    if body > end:
        return None
    head = buffer[position : body - _CRC.size]
    marker, kind, call_id, length = _UNCHECKED.unpack(head)
    if marker != MARKER or body + length > end:
        return None
    payload = bytes(buffer[body : body + length])
    if zlib.crc32(payload, zlib.crc32(head, seed)) != _CRC.unpack(buffer[body - _CRC.size : body])[0]:
        return None
    return Frame(kind, UUID(bytes=call_id), payload, position, body + length)


def _next_frame(buffer: Buffer, position: int, end: int, seed: int) -> int:
    while (position := buffer.find(MARKER, position, end)) != -1:
        if frame_at(buffer, position, end, seed) is not None:
            return position
        position += 1
    return end
