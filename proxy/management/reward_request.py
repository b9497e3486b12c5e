"""The body of a reward, checked strictly: a wrong number must never teach. What is wrong is named, with its field."""

import json
import math
from datetime import UTC, datetime
from typing import Any

from ledger.identifiers import MAX_CHOICES
from ledger.rewards import RewardPost
from ledger.vocabulary import REWARD_METRIC
from proxy.errors import InvalidRequestError, UnprocessableError

COMMENT_METRIC = "comment"
MAX_REWARDS = 500
_MAX_NAME = 256
_MAX_TEXT = 100_000


def parse_reward(target: str, raw: bytes) -> RewardPost:
    """Raises InvalidRequestError (no JSON object) or UnprocessableError (a field is wrong)."""
    body = _json(raw)
    if not isinstance(body, dict):
        raise InvalidRequestError('The body must be a JSON object such as {"reward": 0.7}.')
    return _post(target, body)


def parse_rewards(raw: bytes) -> list[RewardPost | UnprocessableError]:
    """A list, each item with its `target`: the post, or what is wrong with that item. Raises InvalidRequestError."""
    body = _json(raw)
    if not isinstance(body, list):
        raise InvalidRequestError(
            'The body must be a JSON list such as [{"target": "run-7", "reward": 0.7}].'
        )
    if len(body) > MAX_REWARDS:
        raise InvalidRequestError(f"The list has {len(body)} rewards: send at most {MAX_REWARDS} at once.")
    return [_item(item) for item in body]


def _item(item: Any) -> RewardPost | UnprocessableError:
    if not isinstance(item, dict):
        return UnprocessableError('An item must be an object such as {"target": "run-7", "reward": 0.7}.')
    if "target" not in item:
        return UnprocessableError(
            "'target' is missing: send a trajectory id, a reply's id, or your own trajectory id.",
            param="target",
        )
    try:
        return _post(_text(item, "target"), item, of_target="target")
    except UnprocessableError as error:
        return error


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"The body is not JSON: {error}.") from error


def _post(target: str, body: dict[str, Any], of_target: str = "id") -> RewardPost:
    metric = _text(body, "metric", default=REWARD_METRIC)
    is_comment = metric == COMMENT_METRIC
    return RewardPost(
        target=_printable(of_target, target),
        metric=_printable("metric", metric),
        value=None if is_comment else _value(body),
        content=_comment_text(body) if is_comment else None,
        comment=None if is_comment else _text(body, "comment", max_length=_MAX_TEXT) or None,
        source=_printable("source", _text(body, "source", default="user")),
        idempotency_id=_text(body, "id") or None,
        observed_at=_moment(body),
        choice=_choice(body),
    )


def _value(body: dict[str, Any]) -> float:
    if "reward" not in body:
        raise UnprocessableError("'reward' is missing: send a number, true or false.", param="reward")
    value = body["reward"]
    if not isinstance(value, bool | int | float):
        raise UnprocessableError("'reward' must be a number, true or false.", param="reward")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UnprocessableError("'reward' must be finite.", param="reward")
    return number


def _comment_text(body: dict[str, Any]) -> str:
    text = _text(body, "comment", max_length=_MAX_TEXT) or _text(body, "reward", max_length=_MAX_TEXT)
    if not text:
        raise UnprocessableError("A comment needs its text in 'comment'.", param="comment")
    return text


def _text(body: dict[str, Any], name: str, *, default: str = "", max_length: int = _MAX_NAME) -> str:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or len(value) > max_length:
        raise UnprocessableError(f"'{name}' must be a text of at most {max_length} characters.", param=name)
    return value


def _printable(name: str, text: str) -> str:
    if not text or len(text) > _MAX_NAME or not text.isprintable():
        raise UnprocessableError(f"'{name}' must be 1 to {_MAX_NAME} printable characters.", param=name)
    return text


def _choice(body: dict[str, Any]) -> int | None:
    choice = body.get("choice")
    if choice is None:
        return None
    if isinstance(choice, bool) or not isinstance(choice, int) or not 0 <= choice < MAX_CHOICES:
        raise UnprocessableError("'choice' must be the index of a choice, from 0.", param="choice")
    return choice


def _moment(body: dict[str, Any]) -> datetime | None:
    text = _text(body, "observed_at")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UnprocessableError("'observed_at' must be an ISO 8601 time.", param="observed_at") from error
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:  # the year 0, or 10000
        raise UnprocessableError("'observed_at' is out of range.", param="observed_at") from error
