"""How many calls each key may have running in this process. One more is refused before its body is read.

Invariant: a slot is given back on every ending: answered, failed, cancelled, refused.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from proxy.errors import TooManyCallsError

_RETRY_SECONDS = 1


class Concurrency:
    """While no key exists, all callers share one count."""

    def __init__(self, max_per_key: int) -> None:
        self._max_per_key = max_per_key
        self._num_running: Counter[UUID | None] = Counter()

    @contextmanager
    def slot(self, key_id: UUID | None) -> Iterator[None]:
        """Raises TooManyCallsError."""
        if self._num_running[key_id] >= self._max_per_key:
            raise TooManyCallsError(retry_after=_RETRY_SECONDS)
        self._num_running[key_id] += 1
        try:
            yield
        finally:
            self._num_running[key_id] -= 1
            if not self._num_running[key_id]:
                del self._num_running[key_id]  # keys come and go: the table must not grow
