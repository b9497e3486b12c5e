"""UUIDv7 ids: their time is the partition key, so a replayed record lands where its first copy did.

A *call* id ends in 16 zero bits. The exchange of choice k is `call id + k`, so anyone who holds the call id
(it is in the reply's `id`) can name each choice without a look-up.
"""

import hashlib
import re
from datetime import UTC, datetime
from uuid import UUID

import uuid_utils

MAX_CHOICES = 1 << 16
_CALL_NAME = re.compile(
    r"^(?:chatcmpl-|cmpl-|resp_|msg_)?([0-9a-f]{8}-?[0-9a-f]{4}-?7[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12})$"
)
_FIXED_BITS = 0xF << 76 | 0b11 << 62  # version and variant of a UUID


def new_id() -> UUID:
    return UUID(int=uuid_utils.uuid7().int)


def new_call_id() -> UUID:
    """A UUIDv7 whose last 16 bits are zero: room for the choice index."""
    return UUID(int=new_id().int >> 16 << 16)


def derived_call_id(of: UUID, number: int) -> UUID:
    """A call id with the time of another id: the same for the same number, whoever makes it."""
    digest = hashlib.sha256(of.bytes + number.to_bytes(4)).digest()
    low = int.from_bytes(digest[:10]) >> 16 << 16
    return UUID(int=((of.int >> 80 << 80 | low) & ~_FIXED_BITS) | of.int & _FIXED_BITS)


def choice_id(call_id: UUID, choice_index: int) -> UUID:
    """The id that choice `choice_index` (0 ≤ k < 65536) of a call gets."""
    if not 0 <= choice_index < MAX_CHOICES:
        raise ValueError(f"choice index {choice_index} is outside 0..{MAX_CHOICES - 1}")
    return UUID(int=call_id.int + choice_index) if choice_index else call_id


def parse_id(text: str) -> UUID | None:
    """The UUIDv7 in a trajectory id, exchange id or reply id (`chatcmpl-<32 hex>`); None if it is none of ours."""
    match = _CALL_NAME.match(text.strip().lower())
    return UUID(match.group(1)) if match else None


def time_of(value: UUID) -> datetime:
    """The UTC time in a UUIDv7's first 48 bits (milliseconds)."""
    return datetime.fromtimestamp((value.int >> 80) / 1000, tz=UTC)


def first_id_at(moment: datetime) -> UUID:
    """The smallest UUIDv7-ordered value at a time: a partition bound, or the start of a range scan."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)
