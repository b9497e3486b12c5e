"""The calls of the last minutes by who sent which body, so that an SDK's retry keeps the trajectory that it began with.

Only the reply's header needs it: the ledger links the rows by themselves. The choice is the ledger's: the attempt just
before, rather one whose answer did not arrive, then the latest; each is repeated once.
"""

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from uuid import UUID

from ledger.records import CallRecord
from ledger.retries import WINDOW_SECONDS
from ledger.vocabulary import IdentifiedBy

_MAX_EQUAL = 16


@dataclass(slots=True, eq=False)
class SentCall:
    trajectory_id: UUID
    identified_by: IdentifiedBy
    num_retries: int
    sent_at: float = field(default_factory=time.monotonic)
    is_answered: bool = False
    is_repeated: bool = False


class RecentCalls:
    def __init__(self, max_bodies: int) -> None:
        self._max_bodies = max_bodies
        self._calls: OrderedDict[bytes, list[SentCall]] = OrderedDict()

    def add(self, sender: bytes, call: SentCall) -> None:
        calls = self._calls.pop(sender, [])
        self._calls[sender] = [*calls[1 - _MAX_EQUAL :], call]
        if len(self._calls) > self._max_bodies:
            self._calls.popitem(last=False)

    def repeated(self, sender: bytes, num_retries: int) -> SentCall | None:
        """The call that a retry with this count repeats; it is not found again."""
        oldest = time.monotonic() - WINDOW_SECONDS
        fitting = [
            (call.num_retries == num_retries - 1, not call.is_answered, number)
            for number, call in enumerate(self._calls.get(sender, ()))
            if call.num_retries < num_retries and not call.is_repeated and call.sent_at > oldest
        ]
        if not fitting:
            return None
        call = self._calls[sender][max(fitting)[2]]
        call.is_repeated = True
        return call


def sender_of(record: CallRecord) -> bytes:
    """Who sent what, where: the digest of project, key, route and the body's own digest."""
    parts = (record.project, str(record.key_id), record.endpoint, record.request_sha256 or "")
    return hashlib.sha256("\n".join(parts).encode()).digest()
