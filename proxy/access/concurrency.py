"""How many calls each key may have running in this process. One more is refused before its body is read.

Invariant: a slot is given back on every ending: answered, failed, cancelled, refused.
"""

from collections import Counter
from uuid import UUID

from proxy.errors import TooManyCallsError

_RETRY_SECONDS = 1


class Slot:
    """One call's, from entry to exit."""

    __slots__ = ("_key_id", "_num_running")

    def __init__(self, num_running: Counter[UUID | None], key_id: UUID | None) -> None:
        self._num_running = num_running
        self._key_id = key_id

    def __enter__(self) -> None:
        self._num_running[self._key_id] += 1

    def __exit__(self, *_: object) -> None:
        self._num_running[self._key_id] -= 1
        if not self._num_running[self._key_id]:
            del self._num_running[self._key_id]  # keys come and go: the table must not grow


class Concurrency:
    """While no key exists, all callers share one count."""

    def __init__(self, max_per_key: int) -> None:
        self._max_per_key = max_per_key
        self.num_running: Counter[UUID | None] = Counter()

    def slot(self, key_id: UUID | None) -> Slot:
        """To be entered at once. Raises TooManyCallsError."""
        if self.num_running[key_id] >= self._max_per_key:
            raise TooManyCallsError(retry_after=_RETRY_SECONDS)
        return Slot(self.num_running, key_id)
