"""Frames: how a record lies in a segment, so that a torn or flipped byte costs one record and not the file.

marker (4) · kind (1) · call id (16) · length (4) · CRC-32 of all that and the payload (4) · payload. The marker's first
byte cannot occur in UTF-8, so the next frame after a damaged one is found by looking for it.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from uuid import UUID

MARKER = b"\xf5SLP"
ACCEPTED = b"A"
FINISHED = b"F"
_HEADER = struct.Struct(">4sc16sII")
_CRC_SIZE = 4

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


def encode_frame(kind: bytes, call_id: UUID, payload: bytes) -> bytes:
    head = _HEADER.pack(MARKER, kind, call_id.bytes, len(payload), 0)[:-_CRC_SIZE]
    return head + struct.pack(">I", zlib.crc32(payload, zlib.crc32(head))) + payload


def scan(buffer: Buffer, start: int, end: int) -> Iterator[Frame | Gap]:
    """Everything between two offsets, in order, with nothing left out."""
    position = start
    while position < end:
        found = _frame_at(buffer, position, end)
        if found is None:
            following = _next_frame(buffer, position + 1, end)
            yield Gap(position, following)
            position = following
        else:
            yield found
            position = found.end


def _frame_at(buffer: Buffer, position: int, end: int) -> Frame | None:
    body = position + _HEADER.size
    if body > end:
        return None
    head = buffer[position:body]
    marker, kind, call_id, length, checksum = _HEADER.unpack(head)
    if marker != MARKER or body + length > end:
        return None
    payload = bytes(buffer[body : body + length])
    if zlib.crc32(payload, zlib.crc32(head[:-_CRC_SIZE])) != checksum:
        return None
    return Frame(kind, UUID(bytes=call_id), payload, position, body + length)


def _next_frame(buffer: Buffer, position: int, end: int) -> int:
    while (position := buffer.find(MARKER, position, end)) != -1:
        if _frame_at(buffer, position, end) is not None:
            return position
        position += 1
    return end
