"""Which trajectory, group and route a call belongs to, decided from the call alone. The first rule that matches wins.

Any text is the caller's own name for a trajectory; the ledger knows the names it gave out itself (`x-trajectory-id`
of an earlier reply), so those continue their trajectory.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ledger.identifiers import new_call_id
from ledger.records import Attribution, CallRecord
from ledger.vocabulary import IdentifiedBy
from proxy.conversation.turn import trajectory_of_choice
from proxy.errors import InvalidRequestError

MAX_ID_LENGTH = 256
_TURN_TYPES = ("main", "side")


def attribute(path_id: str | None, headers: Mapping[str, str], body: Mapping[str, Any]) -> Attribution:
    """Raises InvalidRequestError for an id that cannot be stored, naming where it stood."""
    metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else None
    identified_by, text = _named(path_id, headers, metadata or {})
    return Attribution(
        trajectory_id=new_call_id(),
        identified_by=identified_by,
        external_id=text,
        group_key=_checked("X-Group-Id", headers.get("x-group-id")) or _in_metadata(metadata, "group_id"),
        group_size=_group_size(headers.get("x-group-size") or (metadata or {}).get("group_size")),
        route=_checked("X-Route", headers.get("x-route")) or _in_metadata(metadata, "route"),
        turn_type=_turn_type(headers.get("x-turn-type")),
        is_opted_out=body.get("store") is False,
        metadata=metadata,
        end_user=next((v for k in ("safety_identifier", "user") if isinstance(v := body.get(k), str)), None),
    )


def _named(
    path_id: str | None, headers: Mapping[str, str], metadata: Mapping[str, Any]
) -> tuple[IdentifiedBy, str | None]:
    if path_id:
        return IdentifiedBy.PATH, _checked("the path's session id", path_id)
    for name in ("X-Trajectory-Id", "X-Session-Id"):
        if text := _checked(name, headers.get(name.lower())):
            return IdentifiedBy.HEADER, text
    for name in ("trajectory_id", "session_id"):
        if text := _in_metadata(metadata, name):
            return IdentifiedBy.METADATA, text
    return IdentifiedBy.NEW, None


def _in_metadata(metadata: Mapping[str, Any] | None, name: str) -> str | None:
    value = (metadata or {}).get(name)
    if value is None or isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return _checked(f"metadata.{name}", str(value))


def _checked(name: str, text: str | None) -> str | None:
    text = (text or "").strip()
    if len(text) > MAX_ID_LENGTH or not (text.isprintable() or not text):
        raise InvalidRequestError(
            f"{name} must be at most {MAX_ID_LENGTH} printable characters.", param=name.removeprefix("the ")
        )
    return text or None


def _group_size(value: Any) -> int | None:
    if value is None:
        return None
    if not str(value).isascii() or not str(value).isdigit() or not 1 <= int(str(value)[:9]) < 1 << 16:
        raise InvalidRequestError("X-Group-Size must be an integer from 1 to 65535.", param="X-Group-Size")
    return int(str(value)[:9])


def _turn_type(value: str | None) -> str:
    text = (value or "main").strip().lower()
    if text not in _TURN_TYPES:
        raise InvalidRequestError("X-Turn-Type must be main or side.", param="X-Turn-Type")
    return text


def trajectory_names(record: CallRecord) -> str:
    """The reply's `x-trajectory-id`: the caller's own name or ours; with n > 1 one per choice, in order."""
    name, num_choices = record.attribution.external_id, record.num_choices
    if name is None and num_choices == 1:
        return str(trajectory_of_choice(record, 0))
    if name is not None:
        names = [name if k == 0 else f"{name}#{k}" for k in range(num_choices)]
    else:
        names = [str(trajectory_of_choice(record, k)) for k in range(num_choices)]
    return ", ".join(quote(text, safe="!#$&'()*+/:;=?@[]^_`{|}~<> ") for text in names)
