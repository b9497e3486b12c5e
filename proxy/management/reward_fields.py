"""The fields of a judgement's body. Whoever is told that one is wrong is told which, and what would be right."""

import json
import math
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from ledger.identifiers import MAX_CHOICES
from proxy.errors import InvalidRequestError, UnprocessableError

MAX_TEXT = 100_000
_MAX_NAME = 256
_MAX_DEPTH = 32


def json_of(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"The body is not JSON: {error}.") from error


def check_names(given: Iterable[str], known: Collection[str], inside: str = "") -> None:
    """What is not read would be lost in silence: a metric that is misspelt would judge another one."""
    for name in given:
        if name in known:
            continue
        nearest = get_close_matches(name, known, n=1)
        hint = f"did you mean '{nearest[0]}'? There are" if nearest else "there are"
        raise UnprocessableError(
            f"'{name[:_MAX_NAME]}' is no field {inside or 'here'}: {hint} {', '.join(known)}.",
            param=name[:_MAX_NAME],
        )


def number_of(body: dict[str, Any], name: str) -> float:
    """True and false stay what they are: ledger.rewards.ranges knows which metrics take them."""
    if name not in body:
        raise UnprocessableError(f"'{name}' is missing: send a number, true or false.", param=name)
    value = body[name]
    if not isinstance(value, int | float):
        raise UnprocessableError(f"'{name}' must be a number, true or false.", param=name)
    if isinstance(value, bool):
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UnprocessableError(f"'{name}' must be finite.", param=name)
    return number


def comment_of(words: Any, name: str) -> str:
    if not isinstance(words, str) or not 0 < len(words) <= MAX_TEXT:
        raise UnprocessableError(
            f"A comment needs its text in '{name}', at most {MAX_TEXT} characters.", param=name
        )
    return words


def demonstration_of(words: Any, name: str) -> Any:
    """A text, a message, or a list of messages."""
    messages = words if isinstance(words, list) else [words]
    is_right = isinstance(words, str) or (messages and all(isinstance(one, dict) for one in messages))
    if not is_right or not words or _is_deeper(words, _MAX_DEPTH) or len(json.dumps(words)) > MAX_TEXT:
        raise UnprocessableError(
            f"A demonstration needs the right answer in '{name}': a text, a message or a list of messages, at most "
            f"{MAX_TEXT} characters of JSON.",
            param=name,
        )
    return words


def _is_deeper(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(one, depth - 1) for one in inner)


def flag_of(body: dict[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise UnprocessableError(f"'{name}' must be true or false.", param=name)
    return default if value is None else value


def is_whole(body: dict[str, Any]) -> bool:
    scope = text_of(body, "scope", default="exchange")
    if scope not in ("exchange", "trajectory"):
        raise UnprocessableError(
            "'scope' must be exchange (a reply's id judges that reply) or trajectory (it judges the whole).",
            param="scope",
        )
    return scope == "trajectory"


def text_of(body: dict[str, Any], name: str, *, default: str = "", max_length: int = _MAX_NAME) -> str:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or len(value) > max_length:
        raise UnprocessableError(f"'{name}' must be a text of at most {max_length} characters.", param=name)
    return value


def printable(name: str, text: str) -> str:
    if not text or len(text) > _MAX_NAME or not text.isprintable():
        raise UnprocessableError(f"'{name}' must be 1 to {_MAX_NAME} printable characters.", param=name)
    return text


def choice_of(body: dict[str, Any]) -> int | None:
    choice = body.get("choice")
    if choice is None:
        return None
    if isinstance(choice, bool) or not isinstance(choice, int) or not 0 <= choice < MAX_CHOICES:
        raise UnprocessableError("'choice' must be the index of a choice, from 0.", param="choice")
    return choice


def moment_of(body: dict[str, Any]) -> datetime | None:
    text = text_of(body, "observed_at")
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
