"""Finished calls as they are in memory, while they are few: the writer need not read back what was just written.

Invariant: what it holds is, in order, the beginning of what is not committed; while `is_complete`, all of it.
"""

from collections import deque
from dataclasses import dataclass, field

from ledger.audit.call_numbers import Spooled
from ledger.spool.directory import Position


@dataclass(slots=True)
class _Entry:
    spooled: Spooled
    end: Position
    num_bytes: int


@dataclass(slots=True)
class RecentCalls:
    max_bytes: int
    is_complete: bool = True
    _entries: deque[_Entry] = field(default_factory=deque)
    _num_bytes: int = 0

    def add(self, spooled: Spooled, end: Position, num_bytes: int) -> None:
        """`end` is where it ends in the spool. Once one does not fit, those after it are in the files alone."""
        self.is_complete = self.is_complete and self._num_bytes + num_bytes <= self.max_bytes
        if self.is_complete:
            self._entries.append(_Entry(spooled, end, num_bytes))
            self._num_bytes += num_bytes

    def first(self, max_records: int) -> list[_Entry]:
        return [entry for entry, _ in zip(self._entries, range(max_records), strict=False)]

    def forget(self, cursor: Position, *, is_all: bool) -> None:
        """All up to the cursor is committed."""
        while self._entries and self._entries[0].end <= cursor:
            self._num_bytes -= self._entries.popleft().num_bytes
        self.is_complete = self.is_complete or is_all

    def __len__(self) -> int:
        return len(self._entries)
