"""A call as bytes and back, exactly: NaN, infinities, U+0000 and lone surrogates included.

MessagePack holds nearly all of them, and behind it stand, as they are, the client's body and the prompt's ids as
text. What it cannot hold (lone surrogates, integers beyond 64 bits), and what would look like the beginning of a frame,
is written as JSON, which begins with another byte. Fields that a newer version added are ignored, and those it does
not know yet take their defaults, so a spool outlives an upgrade.
"""

import json
from dataclasses import fields, is_dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from msgspec import MsgspecError, msgpack

from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.spool.frames import MARKER
from ledger.token_ids import TokenIds
from ledger.vocabulary import ExchangeStatus, IdentifiedBy, Reason

UNDECODABLE = (ValueError, KeyError, TypeError, AttributeError, MsgspecError)  # what `decode_call` raises
UNENCODABLE = (TypeError, ValueError, RecursionError)  # what `encode_call` raises
_NAMES = {
    kind: tuple(field.name for field in fields(kind)) for kind in (CallRecord, ChoiceRecord, Attribution)
}
_OF_REQUEST = ("messages", "request", "raw_request", "prompt_key")
_OF_ANSWER = tuple(name for name in _NAMES[CallRecord] if name not in _OF_REQUEST)
_values, _values_of_answer = attrgetter(*_NAMES[CallRecord]), attrgetter(*_OF_ANSWER)
_LARGE = ("raw_request", "prompt_ids")
_PACKED = b"\x01"
_FILLING = b"\0"  # behind a skeleton, which is shorter than what it stands for
_LENGTH_BYTES = 4  # of the MessagePack's length, which comes next
_HEAD_AT = len(_PACKED) + _LENGTH_BYTES


def encode_call(call: CallRecord) -> bytes:
    return b"".join(call_pieces(call))


def call_pieces(call: CallRecord, **beside: Any) -> list[bytes]:
    """The whole call, in pieces to be written one behind the other: what is large is not copied.

    `beside`: what is no field of it, such as its number.
    """
    return _pieces(dict(zip(_NAMES[CallRecord], _values(call), strict=True), **beside))


def answer_pieces(call: CallRecord, request_at: tuple[int, int], number: int) -> list[bytes]:
    """The call without its request, which stands in the frame at that segment and offset."""
    return _pieces(
        dict(
            zip(_OF_ANSWER, _values_of_answer(call), strict=True),
            request_at=request_at,
            number=number,
        )
    )


def decode_held(encoded: bytes) -> dict[str, Any]:
    """What was encoded, as plain values. Raises what UNDECODABLE lists."""
    if encoded.startswith(_PACKED):
        at = _HEAD_AT + int.from_bytes(encoded[len(_PACKED) : _HEAD_AT])
        held = _object(msgpack.decode(encoded[_HEAD_AT:at]))
        for name, num_bytes in held.pop("behind").items():
            held[name] = encoded[at : at + num_bytes]
            at += num_bytes
        return held
    return _object(json.loads(encoded.rstrip(_FILLING).decode("utf-8", "surrogatepass")))


def _object(held: Any) -> dict[str, Any]:
    if not isinstance(held, dict):
        raise ValueError("not a call")  # noqa: TRY004 - what was read is wrong, not how it was called
    return held


def with_request(held: dict[str, Any], accepted: dict[str, Any] | None) -> dict[str, Any]:
    """An answer together with the request that was accepted; where that is lost, the answer is still worth a row."""
    request = accepted or {"messages": None, "request": {}}
    whole = {**held, **{name: request[name] for name in _OF_REQUEST if name in request}}
    return whole | {"is_erased": bool(held.get("is_erased") or request.get("is_erased"))}


def call_of(held: dict[str, Any]) -> CallRecord:
    """Raises what UNDECODABLE lists on what `encode_call` did not write."""
    held["call_id"] = _uuid(held["call_id"])
    held["started_at"] = _moment(held["started_at"])
    held["status"] = ExchangeStatus(held["status"])
    for name in ("retry_of", "key_id", "group_id"):
        held[name] = _uuid(held[name]) if held.get(name) else None
    held["untrainable_reason"] = (
        Reason(held["untrainable_reason"]) if held.get("untrainable_reason") else None
    )
    held["attribution"] = _attribution(held["attribution"])
    held["choices"] = [_choice(choice) for choice in held.get("choices", [])]
    held["prompt_ids"] = _ids(held.get("prompt_ids"))
    raw = held.get("raw_request")
    held["raw_request"] = raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw
    return CallRecord(**_known(CallRecord, held))


def decode_call(encoded: bytes) -> CallRecord:
    return call_of(decode_held(encoded))


def _pieces(held: dict[str, Any]) -> list[bytes]:
    try:
        behind = {name: _large(held[name]) for name in _LARGE if isinstance(held.get(name), bytes | TokenIds)}
        small = {
            **held,
            **dict.fromkeys(behind),
            "behind": {name: len(value) for name, value in behind.items()},
        }
        head = _PACKER.encode(small)
        if MARKER not in head and not any(MARKER[:1] in value for value in behind.values()):
            return [_PACKED + len(head).to_bytes(_LENGTH_BYTES), head, *behind.values()]
    except (*UNENCODABLE, OverflowError):
        pass
    text = json.dumps(held, default=_plain, ensure_ascii=False, separators=(",", ":"))
    return [text.encode("utf-8", "surrogatepass")]


def _large(value: bytes | TokenIds) -> bytes:
    return value.text if isinstance(value, TokenIds) else value


def _packed(value: Any) -> Any:
    if isinstance(value, TokenIds):
        return value.text
    raise TypeError(f"{type(value).__name__} cannot be spooled")


_PACKER = msgpack.Encoder(enc_hook=_packed, uuid_format="bytes")


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, TokenIds):
        return value.text.decode()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be spooled")


def _attribution(held: dict[str, Any]) -> Attribution:
    held["trajectory_id"] = _uuid(held["trajectory_id"])
    held["identified_by"] = IdentifiedBy(held["identified_by"])
    return Attribution(**_known(Attribution, held))


def _choice(held: dict[str, Any]) -> ChoiceRecord:
    held["prompt_ids"] = _ids(held.get("prompt_ids"))
    return ChoiceRecord(**_known(ChoiceRecord, held))


def _known(kind: type[Any], held: dict[str, Any]) -> dict[str, Any]:
    return {name: held[name] for name in _NAMES[kind] if name in held}


def _uuid(value: bytes | str) -> UUID:
    return UUID(bytes=value) if isinstance(value, bytes) else UUID(value)


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def _ids(value: Any) -> Any:
    """Ids that were written as text are text again."""
    if isinstance(value, str):
        value = value.encode()
    return TokenIds(value) if isinstance(value, bytes) else value
