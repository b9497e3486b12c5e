"""Judgements as requests. Each gets an id, so that sending it again after a lost answer is safe (I5)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict
from urllib.parse import quote, urlencode
from uuid import uuid4

from slipstream.client.request import Request, encoded
from slipstream.client.result import InvalidArgumentError, Result
from slipstream.client.target import target_of


class Judgement(TypedDict, total=False):
    """What a judgement may say beside its target and value, None as if left out; docs/http.md has each field."""

    metric: str | None
    comment: str | None
    source: str | None
    choice: int | None
    scope: Literal["exchange", "trajectory"] | None
    final: bool | None
    observed_at: datetime | str | None
    id: str | None


def reward(target: Any, value: Any, fields: Mapping[str, Any]) -> Request:
    return _posted(target, {"reward": _plain(value)}, fields)


def comment(target: Any, text: str, fields: Mapping[str, Any]) -> Request:
    return _posted(target, {"metric": "comment", "comment": text}, fields, taken={"metric", "comment"})


def demonstration(target: Any, answer: Any, fields: Mapping[str, Any]) -> Request:
    """`answer` is what the reply should have been: a text, a message, or a list of messages."""
    body = {"metric": "demonstration", "content": answer}
    return _posted(target, body, fields, taken={"metric"})


def item(given: Any) -> Request:
    """An item of a list: `{"target", "reward", …}`, or (target, value)."""
    if isinstance(given, Mapping):
        fields = dict(given)
        if "target" not in fields or "reward" not in fields:
            raise InvalidArgumentError("An item needs 'target' and 'reward'.")
        return reward(fields.pop("target"), fields.pop("reward"), fields)
    try:
        target, value = given
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError("An item is a mapping, or (target, value).") from error
    return reward(target, value, {})


def comparison(preferred: Any, other: Any, fields: Mapping[str, Any]) -> Request:
    """Each side a target, or (target, choice)."""
    body = {"preferred": _side(preferred), "other": _side(other), **_said(fields, _OF_COMPARISONS)}
    body.setdefault("id", _new_id())
    return Request("POST", "/v1/comparisons", encoded(body), body["id"])


def retraction(target: Any, fields: Mapping[str, Any]) -> Request:
    """Of what was said last about a target, or of a comparison by its result. Taken back twice is taken back."""
    said = _said(fields, _OF_RETRACTIONS)
    if isinstance(target, Result) and target.data.get("object") == "comparison":
        return Request("DELETE", f"/v1/comparisons/{quote(str(target.data.get('id')), safe='')}")
    return Request("DELETE", f"{_path(target_of(target))}/reward?{urlencode(said)}")


def explanation(target: Any) -> Request:
    return Request("GET", f"{_path(target_of(target))}/explain")


_OF_COMPARISONS = {"comment", "source", "scope", "id", "observed_at"}
_OF_RETRACTIONS = {"metric", "source", "choice", "scope", "comment"}


def _posted(
    target: Any, body: dict[str, Any], fields: Mapping[str, Any], taken: Iterable[str] = ()
) -> Request:
    name = target_of(target)
    body |= _said(fields, Judgement.__annotations__.keys() - set(taken))
    body.setdefault("id", _new_id())
    whole = encoded(body)
    return Request("POST", f"{_path(name)}/reward", whole, body["id"], encoded({"target": name, **body}))


def _said(fields: Mapping[str, Any], allowed: Iterable[str]) -> dict[str, Any]:
    """Without what is None. Raises InvalidArgumentError for a field that does not belong there."""
    if unknown := sorted(map(str, fields.keys() - set(allowed))):
        raise InvalidArgumentError(
            f"{', '.join(unknown)}: not a field here; there are {', '.join(sorted(allowed))}."
        )
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    """Numbers of numpy and torch as Python's, moments as text."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).isoformat()
    return value if isinstance(value, str | int | float) or not hasattr(value, "item") else value.item()


def _side(given: Any) -> Any:
    if isinstance(given, tuple) and len(given) == 2:  # noqa: PLR2004 - a pair
        return {"target": target_of(given[0]), "choice": given[1]}
    return target_of(given)


def _path(target: str) -> str:
    return f"/v1/trajectories/{quote(target, safe='')}"


def _new_id() -> str:
    return f"auto-{uuid4().hex}"
