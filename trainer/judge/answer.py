"""What a judge answered, strictly read. Pure.

Invariant: either every id has exactly one finite score from 0 to 1, or there is none at all and a sentence says why. That
sentence holds ids and numbers, never a text of the answer.
"""

import json
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

MAX_EXPLANATION = 2_000
_MAX_ANSWER = 200_000
_MAX_STARTS = 2_000  # places at which JSON is looked for
_MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class Given:
    """What the judge gave one attempt. Example: Given(1.0, "It reaches the goal.")."""

    score: float
    explanation: str


class AnswerRefusedError(Exception):
    """The judge's answer cannot be used; the message says what is wrong, to the judge and to the operator."""


def read_answer(text: str, ids: Collection[str]) -> dict[str, Given]:
    """The scores by id. Raises AnswerRefusedError."""
    given: dict[str, Given] = {}
    unknown = 0
    for item in _items(text):
        id_ = item.get("id")
        if not isinstance(id_, str) or id_ not in ids:
            unknown += 1
            continue
        if id_ in given:
            raise AnswerRefusedError(f"the id {id_} stands in it twice")
        given[id_] = Given(_score(id_, item.get("score")), _explanation(id_, item))
    if unknown:
        raise AnswerRefusedError(f"{unknown} of its ids were not asked for")
    if missing := [id_ for id_ in ids if id_ not in given]:
        rest = "" if len(missing) <= _MAX_NAMED else f" and {len(missing) - _MAX_NAMED} more"
        raise AnswerRefusedError(f"the ids {', '.join(missing[:_MAX_NAMED])}{rest} are missing")
    return given


def _score(id_: str, score: Any) -> float:
    """Cut to [0, 1]. A number that is beyond every float is infinite."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise AnswerRefusedError(f"the score of {id_} is not a number")
    if isinstance(score, float) and not math.isfinite(score):
        raise AnswerRefusedError(f"the score of {id_} is not a finite number")
    return float(min(max(score, 0), 1))


def _explanation(id_: str, item: dict[str, Any]) -> str:
    said = item.get("explanation") or ""
    if not isinstance(said, str):
        raise AnswerRefusedError(f"the explanation of {id_} is no text")
    score = item["score"]
    is_cut = not 0 <= score <= 1
    note = " [its score lay outside of 0 to 1, and was cut]" if is_cut else ""
    return said[:MAX_EXPLANATION] + note


def _items(text: str) -> list[dict[str, Any]]:
    """The list of objects in an answer: bare, in a fence, or after some thoughts."""
    for value in _values(text[-_MAX_ANSWER:]):
        items = value.get("scores") if isinstance(value, dict) else value
        if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
            return items
    raise AnswerRefusedError('there is no JSON object with a list "scores" in it')


def _values(text: str) -> Iterator[Any]:
    """JSON values in a text, the last one first: thoughts come before the answer. What is inside of one is not looked at."""
    decoder = json.JSONDecoder(object_pairs_hook=_without_doubles)
    found: list[Any] = []
    position = tries = 0
    while tries < _MAX_STARTS:
        starts = [start for start in (text.find("{", position), text.find("[", position)) if start >= 0]
        if not starts:
            break
        tries += 1
        try:
            value, position = decoder.raw_decode(text, min(starts))
        except (ValueError, RecursionError):
            position = min(starts) + 1
        else:
            found.append(value)
    return iter(found[::-1])


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two scores counts is not for us to choose."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise AnswerRefusedError("an object in it has a member twice")
    return members
