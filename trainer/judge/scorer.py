"""The operator's own scorer: one POST an answer, strictly read.

Invariant: what it says is a finite number of the range of `reward`, or it is refused; a call ends by its deadline, however
slowly the scorer drips; its key goes into one header and nowhere else.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx2

from ledger.text import mapped
from trainer.judge.errors import ScorerAnswerError, ScorerUnreachableError
from trainer.judge.settings import JudgeSettings

OK, SERVER_ERROR = 200, 500
_NOT_NOW = (408, 425, 429)
_MAX_ANSWER_BYTES = 1 << 20
_MAX_COMMENT = 4_000
_LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Scored:
    """Example: Scored(0.5, "half of the tests pass")."""

    reward: float
    comment: str | None = None


def score(
    settings: JudgeSettings,
    *,
    messages: Sequence[Mapping[str, Any]],
    answer: Mapping[str, Any],
    trajectory_id: UUID,
    metadata: Mapping[str, Any] | None = None,
    smallest: float = -1.0,
    largest: float = 1.0,
) -> Scored:
    """What the scorer says of an answer (an assistant message) to these messages.

    `smallest` and `largest`: what the policy takes as `reward` (reward_scale), outside of which it is refused. Raises ScorerUnreachableError
    after `scorer_attempts` attempts, and ScorerAnswerError at once. Blocks for at most attempts x (time-out + 5 s).
    """
    if settings.scorer_url is None:
        raise ScorerUnreachableError("No scorer is named: set SLIPSTREAM_SCORER_URL.")
    body = {
        "messages": list(messages),
        "answer": dict(answer),
        "trajectory_id": str(trajectory_id),
        "metadata": dict(metadata or {}),
    }
    content = json.dumps(mapped(body, str, _finite)).encode()
    with httpx2.Client(trust_env=False, follow_redirects=False) as client:
        for attempt in range(1, settings.scorer_attempts + 1):
            try:
                return scored_of(_asked(client, settings, content), smallest, largest)
            except ScorerUnreachableError:
                if attempt == settings.scorer_attempts:
                    raise
                sleep(min(_LONGEST_PAUSE_SECONDS, 0.25 * 2 ** (attempt - 1)))
    raise ScorerUnreachableError


def scored_of(data: bytes, smallest: float, largest: float) -> Scored:
    """The answer's bytes as a reward. Raises ScorerAnswerError, which names the field and never repeats a text."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ScorerAnswerError("The scorer's answer is not JSON.") from error
    if not isinstance(told, dict) or "reward" not in told:
        raise ScorerAnswerError('The scorer\'s answer has no "reward".')
    reward, comment = told["reward"], told.get("comment")
    if not isinstance(reward, int | float):
        raise ScorerAnswerError('The scorer\'s "reward" is neither a number nor true or false.')
    if not _is_within(reward, smallest, largest):
        raise ScorerAnswerError(
            f'The scorer\'s "reward" is not a number from {smallest:g} to {largest:g}, the range of reward.'
        )
    if comment is not None and not isinstance(comment, str):
        raise ScorerAnswerError('The scorer\'s "comment" is no text.')
    return Scored(float(reward), None if comment is None else comment[:_MAX_COMMENT])


def _finite(leaf: Any) -> Any:
    """A client's NaN is no JSON."""
    return None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf


def _is_within(reward: float, smallest: float, largest: float) -> bool:
    """Compared as it came: an integer of a thousand digits is no float."""
    is_finite = isinstance(reward, int) or math.isfinite(reward)
    return is_finite and smallest <= reward <= largest


def _asked(client: httpx2.Client, settings: JudgeSettings, content: bytes) -> bytes:
    """Raises ScorerUnreachableError where another attempt may help."""
    headers = {"content-type": "application/json"}
    if settings.scorer_key:
        headers["authorization"] = f"Bearer {settings.scorer_key.get_secret_value()}"
    seconds, url = settings.scorer_timeout_seconds, str(settings.scorer_url)
    deadline = monotonic() + seconds
    where = f"The scorer at {urlsplit(url).netloc}"
    try:
        with client.stream("POST", url, content=content, headers=headers, timeout=seconds) as answer:
            data = _read(answer, deadline, where)
    except httpx2.TransportError as error:
        raise ScorerUnreachableError(f"{where} does not answer ({type(error).__name__}).") from error
    if answer.status_code in _NOT_NOW or answer.status_code >= SERVER_ERROR:
        raise ScorerUnreachableError(f"{where} answers {answer.status_code}.")
    if answer.status_code != OK:
        raise ScorerAnswerError(f"{where} answers {answer.status_code}: 200 is expected.")
    return data


def _read(answer: httpx2.Response, deadline: float, where: str) -> bytes:
    data = bytearray()
    for chunk in answer.iter_bytes():
        data += chunk
        if len(data) > _MAX_ANSWER_BYTES:
            raise ScorerAnswerError(f"{where} answers more than {_MAX_ANSWER_BYTES >> 20} MiB.")
        if monotonic() > deadline:
            raise ScorerUnreachableError(f"{where} did not end its answer in time.")
    return bytes(data)
