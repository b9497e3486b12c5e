"""Whether an attempt is made again, and after how long. Every request here may be repeated: its id makes it safe."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_REPEATABLE = {408, 425, 429}  # 409 is no lock here: another post has this id


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True)
class Patience:
    num_retries: int = 2
    first_wait_seconds: float = 0.25
    max_wait_seconds: float = 8.0

    def wait_seconds(self, num_failed: int, seen: Answer | Exception) -> float | None:
        """Before the next attempt; None: there is none. A server that asks for more than `max_wait_seconds` is left."""
        if num_failed > self.num_retries or not _is_repeatable(seen):
            return None
        asked = _retry_after(seen) if isinstance(seen, Answer) else None
        if asked is not None and asked > self.max_wait_seconds:
            return None
        ceiling = min(self.max_wait_seconds, self.first_wait_seconds * 2.0 ** min(num_failed - 1, 30))
        jitter = random.uniform(0.5, 1.0) * ceiling  # noqa: S311 - so that many clients do not come back at once
        return max(asked or 0.0, jitter)


def _is_repeatable(seen: Answer | Exception) -> bool:
    return isinstance(seen, Exception) or seen.status in _REPEATABLE or seen.status >= 500  # noqa: PLR2004 - HTTP


def _retry_after(answer: Answer) -> float | None:
    text = answer.headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one without a zone
        return None
