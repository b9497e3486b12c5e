"""TensorZero's body of POST /feedback, as a judgement of ours.

Documented at tensorzero.com/docs/gateway/api-reference/feedback: one of inference_id and episode_id, a metric's name, and
a value whose type is the metric's. Its `tags` are kept as the judgement's comment. `choice` is ours: which of n answers.
"""

import json
from dataclasses import dataclass
from typing import Any

from ledger.rewards.posts import RewardPost
from ledger.vocabulary import COMMENT_METRIC, COMPARISON_METRIC, DEMONSTRATION_METRIC
from proxy.errors import InvalidRequestError, UnprocessableError
from proxy.management.reward_fields import (
    MAX_TEXT,
    choice_of,
    comment_of,
    demonstration_of,
    flag_of,
    json_of,
    number_of,
    printable,
    text_of,
)


@dataclass(frozen=True, slots=True)
class Feedback:
    post: RewardPost
    is_dry_run: bool


def parse_feedback(raw: bytes) -> Feedback:
    """Raises InvalidRequestError (no JSON object) or UnprocessableError (a field is wrong)."""
    body = json_of(raw)
    if not isinstance(body, dict):
        raise InvalidRequestError(
            'The body must be an object such as {"metric_name": "reward", "value": true, …}.'
        )
    name, target = _target(body)
    metric = printable("metric_name", text_of(body, "metric_name"))
    if metric == COMPARISON_METRIC:
        raise UnprocessableError(
            "A comparison has two sides: send it to POST /v1/comparisons.", param="metric_name"
        )
    if metric == DEMONSTRATION_METRIC and name == "episode_id":
        raise UnprocessableError(
            "A demonstration is of one reply: send 'inference_id'.", param="inference_id"
        )
    words = {COMMENT_METRIC: comment_of, DEMONSTRATION_METRIC: demonstration_of}.get(metric)
    post = RewardPost(
        target=target,
        metric=metric,
        value=None if words else number_of(body, "value"),
        content=words(body.get("value"), "value") if words else None,
        comment=_tags(body),
        choice=choice_of(body),
        is_whole=name == "episode_id",
    )
    return Feedback(post, flag_of(body, "dryrun", default=False))


def _target(body: dict[str, Any]) -> tuple[str, str]:
    given = [name for name in ("inference_id", "episode_id") if body.get(name) is not None]
    if len(given) != 1:
        raise UnprocessableError("Send one of 'inference_id' and 'episode_id'.", param="inference_id")
    return given[0], printable(given[0], text_of(body, given[0]))


def _tags(body: dict[str, Any]) -> str | None:
    tags = body.get("tags")
    if not tags and isinstance(tags, dict | None):
        return None
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise UnprocessableError("'tags' must be an object of texts.", param="tags")
    text = json.dumps(tags, sort_keys=True, ensure_ascii=False)
    if len(text) > MAX_TEXT:
        raise UnprocessableError(f"'tags' must be at most {MAX_TEXT} characters of JSON.", param="tags")
    return text
