"""Which ids imported rows get. In the project that they were exported from, their own: what is there already stays.

In another project a copy has ids of its own, made from the old ones: the same again each time, in the same order, of
the same time (so in the same partition) and with the same choice.
"""

import hashlib
from uuid import UUID

CLIENT = "slipstream import"  # of imported chat logs
_TIME_BITS = 80
_CHOICE_BITS = 16
_VERSION = 7 << 76
_VARIANT = 2 << 62
_FREE = ((1 << _TIME_BITS) - 1) & ~(15 << 76) & ~(3 << 62) & ~((1 << _CHOICE_BITS) - 1)
_MARKS = (1 << 16) - 1


def copied_id(id_: UUID, project: str) -> UUID:
    """The id of this row's copy in another project: 16 bits below those that count within a millisecond differ."""
    digest = hashlib.sha256(project.encode()).digest()
    mark = int.from_bytes(digest[:4], "big") % _MARKS + 1  # never 0: a copy is never what it is copied from
    return UUID(int=id_.int ^ (mark << _CHOICE_BITS))


def line_digest(sha256: str) -> bytes:
    """Of a line that was erased, as tombstones hold it. `sha256`: hex, of its content."""
    return hashlib.sha256(f"line\0{sha256}".encode()).digest()


def content_id(digest: bytes, milliseconds: int) -> UUID:
    """A call's id for a line that brings none: of its time, and of its content."""
    noise = int.from_bytes(digest[:10], "big") & _FREE
    return UUID(int=(milliseconds << _TIME_BITS) | _VERSION | _VARIANT | noise)
