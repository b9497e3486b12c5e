"""The body of a reward, checked strictly: a wrong number must never teach. What is wrong is named, with its field."""

from collections.abc import Mapping
from typing import Any

from ledger.identifiers import MAX_CHOICES
from ledger.rewards.comparisons import Comparison
from ledger.rewards.counting import WORDS_METRICS
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import COMMENT_METRIC, COMPARISON_METRIC, DEMONSTRATION_METRIC, REWARD_METRIC
from proxy.errors import InvalidRequestError, UnprocessableError
from proxy.management.reward_fields import (
    MAX_TEXT,
    check_names,
    choice_of,
    comment_of,
    demonstration_of,
    flag_of,
    is_whole,
    json_of,
    moment_of,
    number_of,
    printable,
    text_of,
)

MAX_REWARDS = 500
_FIELDS = (
    "reward", "metric", "comment", "content", "source", "choice", "scope", "final", "id", "observed_at",
)  # fmt: skip
_RETRACTION_FIELDS = ("metric", "source", "choice", "scope", "comment")
_COMPARISON_FIELDS = ("preferred", "other", "source", "comment", "id", "observed_at", "scope")
_SIDE_FIELDS = ("target", "choice")
_MAX_ID = 240  # each half has the comparison's, and says which it is


def parse_reward(target: str, raw: bytes) -> RewardPost:
    """Raises InvalidRequestError (no JSON object) or UnprocessableError (a field is wrong)."""
    body = json_of(raw)
    if not isinstance(body, dict):
        raise InvalidRequestError('The body must be a JSON object such as {"reward": 0.7}.')
    check_names(body, _FIELDS)
    return _post(target, body)


def parse_rewards(raw: bytes) -> list[RewardPost | UnprocessableError]:
    """A list, each item with its `target`: the post, or what is wrong with that item. Raises InvalidRequestError."""
    body = json_of(raw)
    if not isinstance(body, list):
        raise InvalidRequestError(
            'The body must be a JSON list such as [{"target": "run-7", "reward": 0.7}].'
        )
    if len(body) > MAX_REWARDS:
        raise InvalidRequestError(f"The list has {len(body)} rewards: send at most {MAX_REWARDS} at once.")
    return [_item(item) for item in body]


def parse_retraction(target: str, query: Mapping[str, str], raw: bytes) -> RewardPost:
    """Which judgement is taken back, in the query or in a body; there is no need of either.

    Raises InvalidRequestError, UnprocessableError.
    """
    body = json_of(raw) if raw.strip() else {}
    if not isinstance(body, dict):
        raise InvalidRequestError(
            'The body, if there is one, must be a JSON object such as {"metric": "reward"}.'
        )
    body = {**query, **body}
    check_names(body, _RETRACTION_FIELDS)
    if isinstance(choice := body.get("choice"), str) and _is_choice(choice):
        body["choice"] = int(choice)
    metric = printable("metric", text_of(body, "metric", default=REWARD_METRIC))
    if metric == COMPARISON_METRIC:
        raise UnprocessableError(
            "A comparison is taken back whole: send DELETE /v1/comparisons/{id}.", param="metric"
        )
    return RewardPost(
        target=printable("id", target),
        metric=metric,
        source=printable("source", text_of(body, "source", default="user")),
        comment=text_of(body, "comment", max_length=MAX_TEXT) or None,
        choice=choice_of(body),
        is_whole=is_whole(body),
        is_retraction=True,
    )


def _is_choice(text: str) -> bool:
    """Other texts are left to whoever says what is wrong with them: int() refuses thousands of digits in its own words."""
    return text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_CHOICES))


def parse_comparison(raw: bytes) -> Comparison:
    """Raises InvalidRequestError, UnprocessableError."""
    body = json_of(raw)
    if not isinstance(body, dict):
        raise InvalidRequestError(
            'The body must be a JSON object such as {"preferred": "run-7", "other": "run-8"}.'
        )
    check_names(body, _COMPARISON_FIELDS)
    return Comparison(_side(body, "preferred"), _side(body, "other"))


def _side(body: dict[str, Any], name: str) -> RewardPost:
    """An id, or {"target": id, "choice": k}."""
    side = body.get(name)
    side = side if isinstance(side, dict) else {"target": side}
    if not isinstance(side.get("target"), str):
        raise UnprocessableError(
            f"'{name}' must be a trajectory id, a reply's id or your own trajectory id, or an object with `target` and "
            "`choice`.",
            param=name,
        )
    check_names(side, _SIDE_FIELDS, f"of '{name}'")
    return RewardPost(
        target=printable(name, side["target"]),
        choice=choice_of(side),
        comment=text_of(body, "comment", max_length=MAX_TEXT) or None,
        source=printable("source", text_of(body, "source", default="user")),
        idempotency_id=text_of(body, "id", max_length=_MAX_ID) or None,
        observed_at=moment_of(body),
        is_whole=is_whole(body),
    )


def _item(item: Any) -> RewardPost | UnprocessableError:
    if not isinstance(item, dict):
        return UnprocessableError('An item must be an object such as {"target": "run-7", "reward": 0.7}.')
    if "target" not in item:
        return UnprocessableError(
            "'target' is missing: send a trajectory id, a reply's id, or your own trajectory id.",
            param="target",
        )
    try:
        check_names(item, ("target", *_FIELDS))
        return _post(text_of(item, "target"), item, of_target="target")
    except UnprocessableError as error:
        return error


def _post(target: str, body: dict[str, Any], of_target: str = "id") -> RewardPost:
    metric = text_of(body, "metric", default=REWARD_METRIC)
    if metric == COMPARISON_METRIC:
        raise UnprocessableError(
            "A comparison has two sides: send it to POST /v1/comparisons.", param="metric"
        )
    if metric != DEMONSTRATION_METRIC and body.get("content") is not None:
        raise UnprocessableError(
            "'content' goes with metric demonstration; a remark is a 'comment'.", param="content"
        )
    has_words = metric in WORDS_METRICS
    return RewardPost(
        target=printable(of_target, target),
        metric=printable("metric", metric),
        value=None if has_words else number_of(body, "reward"),
        content=_words(metric, body) if has_words else None,
        comment=None if metric == COMMENT_METRIC else text_of(body, "comment", max_length=MAX_TEXT) or None,
        source=printable("source", text_of(body, "source", default="user")),
        idempotency_id=text_of(body, "id") or None,
        observed_at=moment_of(body),
        choice=choice_of(body),
        is_final=flag_of(body, "final", default=True),
        is_whole=is_whole(body),
    )


def _words(metric: str, body: dict[str, Any]) -> Any:
    """Of a comment its text, of a demonstration what would have been right."""
    name = "comment" if metric == COMMENT_METRIC else "content"
    words = body.get(name)
    if words is None:
        words = body.get("reward")
    return comment_of(words, name) if metric == COMMENT_METRIC else demonstration_of(words, name)
