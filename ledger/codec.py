"""A call as bytes and back, exactly: NaN, infinities, U+0000 and lone surrogates included.

Fields that a newer version added are ignored, and those it does not know yet take their defaults, so a spool outlives
an upgrade and a downgrade.
"""

import json
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.vocabulary import ExchangeStatus, IdentifiedBy, Reason


def encode_call(call: CallRecord) -> bytes:
    encoded = json.dumps(call, default=_plain, ensure_ascii=False, separators=(",", ":"))
    return encoded.encode("utf-8", "surrogatepass")


def decode_call(encoded: bytes) -> CallRecord:
    """Raises ValueError, KeyError, TypeError or AttributeError on what `encode_call` did not write."""
    held = json.loads(encoded.decode("utf-8", "surrogatepass"))
    held["call_id"] = UUID(held["call_id"])
    held["started_at"] = datetime.fromisoformat(held["started_at"])
    held["status"] = ExchangeStatus(held["status"])
    held["key_id"] = UUID(held["key_id"]) if held.get("key_id") else None
    held["retry_of"] = UUID(held["retry_of"]) if held.get("retry_of") else None
    held["untrainable_reason"] = (
        Reason(held["untrainable_reason"]) if held.get("untrainable_reason") else None
    )
    held["attribution"] = _attribution(held["attribution"])
    held["choices"] = [ChoiceRecord(**_known(ChoiceRecord, choice)) for choice in held.get("choices", [])]
    return CallRecord(**_known(CallRecord, held))


def _attribution(held: dict[str, Any]) -> Attribution:
    held["trajectory_id"] = UUID(held["trajectory_id"])
    held["identified_by"] = IdentifiedBy(held["identified_by"])
    return Attribution(**_known(Attribution, held))


def _known(kind: type[Any], held: dict[str, Any]) -> dict[str, Any]:
    return {field.name: held[field.name] for field in fields(kind) if field.name in held}


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be spooled")
