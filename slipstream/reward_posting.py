"""Posts items to POST /v1/rewards, a bounded batch at a time, and counts what became of each.

A batch whose answer is lost, or that came at a bad moment, is sent again: its ids make that safe (I5).
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from slipstream.errors import NotRunningError, SlipstreamError
from slipstream.http import call
from slipstream.reward_query import BadRow, Item

MAX_ITEMS = 200
_MAX_BYTES = 1 << 20
_SECONDS = 120
_WAITS_SECONDS = (1, 2, 4, 8, 15)  # before another try
_TRY_AGAIN = {429, 502, 503, 504}
_TOLD = 20  # refused rows are told in words up to here; all are counted


@dataclass
class Outcome:
    """Rows by what became of them: recorded, unchanged, early, refused, without a reward; checked by a dry run."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: list[BadRow] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        return self.counts.total()

    def refuse(self, row: BadRow) -> None:
        self.counts["refused"] += 1
        if len(self.refused) < _TOLD:
            self.refused.append(row)

    def as_json(self) -> str:
        names = ("recorded", "unchanged", "early", "checked", "refused", "without_reward")
        rows = [{"row": row.number, "target": row.target, "message": row.message} for row in self.refused]
        counts = {name: self.counts[name] for name in names}
        return json.dumps({"num_rows": self.num_rows, **counts, "refused_rows": rows})


def post_all(
    found: Iterable[Item | BadRow | None],
    post: Callable[[list[Item]], list[dict[str, Any]]],
    tell: Callable[[Outcome], None],
) -> Outcome:
    """`post` answers each item of a batch; `tell` hears of the outcome so far after each batch."""
    outcome = Outcome()
    for batch in _batches(found, outcome):
        for item, answer in zip(batch, post(batch), strict=True):
            if "error" in answer:
                outcome.refuse(BadRow(item.number, item.body["target"], answer["error"]["message"]))
            else:
                outcome.counts[answer["status"]] += 1
        tell(outcome)
    return outcome


def _batches(found: Iterable[Item | BadRow | None], outcome: Outcome) -> Iterator[list[Item]]:
    batch, num_bytes = list[Item](), 0
    for one in found:
        if one is None:
            outcome.counts["without_reward"] += 1
        elif isinstance(one, BadRow):
            outcome.refuse(one)
        else:
            batch.append(one)
            num_bytes += len(json.dumps(one.body))
            if len(batch) >= MAX_ITEMS or num_bytes >= _MAX_BYTES:
                yield batch
                batch, num_bytes = [], 0
    if batch:
        yield batch


def poster(
    url: str, key: str | None, sleep: Callable[[float], None] = time.sleep
) -> Callable[[list[Item]], Any]:
    """Posts a batch to the proxy at `url`. Raises SlipstreamError where trying again is of no use."""

    def post(batch: list[Item]) -> list[dict[str, Any]]:
        status, answer = _ask(url, key, [item.body for item in batch], sleep)
        if status != 200 or not isinstance(answer, dict):  # noqa: PLR2004 - HTTP
            message = answer.get("error", {}).get("message") if isinstance(answer, dict) else answer
            raise SlipstreamError(f"The rewards were refused ({status}): {message}")
        data: list[dict[str, Any]] = answer["data"]
        return data

    return post


def _ask(url: str, key: str | None, body: Any, sleep: Callable[[float], None]) -> tuple[int, Any]:
    for wait_seconds in (*_WAITS_SECONDS, None):
        try:
            status, answer = call(f"{url}/v1/rewards", body, seconds=_SECONDS, key=key)
        except OSError as error:
            if wait_seconds is None:
                raise NotRunningError(
                    f"No proxy answers at {url}: start one with `slipstream up`, or set SLIPSTREAM_URL. What was "
                    "posted before stays; run the command again for the rest."
                ) from error
        else:
            if status not in _TRY_AGAIN or wait_seconds is None:
                return status, answer
        sleep(wait_seconds)
    raise AssertionError
