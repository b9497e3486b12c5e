"""How many calls each key may have running in this process. One more is refused before its body is read.

Invariant: a slot is given back on every ending: answered, failed, cancelled, refused.
"""

from types import TracebackType
from uuid import UUID

from proxy.errors import TooManyCallsError

_RETRY_SECONDS = 1


class Concurrency:
    """While no key exists, all callers share one count."""

    def __init__(self, max_per_key: int) -> None:
        self.max_per_key = max_per_key
        self.num_running: dict[UUID | None, int] = {}

    def slot(self, key_id: UUID | None) -> "Slot":
        return Slot(self, key_id)


class Slot:
    """A context manager: a generator would cost as much again as all else that is done at the door."""

    __slots__ = ("_all", "_key_id")

    def __init__(self, concurrency: Concurrency, key_id: UUID | None) -> None:
        self._all = concurrency
        self._key_id = key_id

    def __enter__(self) -> None:
        """Raises TooManyCallsError."""
        num_running = self._all.num_running.get(self._key_id, 0)
        if num_running >= self._all.max_per_key:
            raise TooManyCallsError(retry_after=_RETRY_SECONDS)
        self._all.num_running[self._key_id] = num_running + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        num_running = self._all.num_running.pop(self._key_id) - 1
        if num_running:  # else forgotten: keys come and go, and the table must not grow
            self._all.num_running[self._key_id] = num_running
