"""The comparison of an audit: accepted calls on one side, everything that accounts for them on the other. Pure.

Invariant: each number of a process and hour falls into exactly one of committed, rejected, waiting, running, elsewhere
and lost. docs/decisions/0010-audit.md says where each is known from.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ledger.audit.number_set import NumberSet

SILENCE = timedelta(hours=1)  # of a process on another machine, after which its open calls count as lost
Key = tuple[str, int]  # process, hour since 1970


@dataclass(frozen=True, slots=True)
class Held:
    """What lies in a directory of the spool, or in rejected/, of one process and hour."""

    accepted: NumberSet = field(default_factory=NumberSet)
    finished: NumberSet = field(default_factory=NumberSet)
    rejected: NumberSet = field(default_factory=NumberSet)

    def highest(self) -> int:
        return max(part.highest() for part in (self.accepted, self.finished, self.rejected))


@dataclass(frozen=True, slots=True)
class Captured:
    """What Postgres holds of one process and hour: capture_hours."""

    num_accepted: int = 0
    committed: NumberSet = field(default_factory=NumberSet)
    interrupted: NumberSet = field(default_factory=NumberSet)
    rejected: NumberSet = field(default_factory=NumberSet)
    uncaptured: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Process:
    """capture_processes, and whether its directory would be in the spool that was read."""

    seen_at: datetime
    is_ended: bool
    is_here: bool


@dataclass(frozen=True, slots=True)
class Hour:
    process: str
    hour: int
    num_accepted: int
    num_spooled: int
    committed: NumberSet
    num_interrupted: int
    num_running: int
    num_waiting: int
    num_rejected: int
    num_elsewhere: int
    uncaptured: Mapping[str, int]
    lost: NumberSet


@dataclass(frozen=True, slots=True)
class Evidence:
    """In the order in which it was gathered: `before` from Postgres, `held` from the disk, the rest from Postgres."""

    before: Mapping[Key, int]  # calls accepted
    held: Mapping[Key, Held]
    captured: Mapping[Key, Captured]
    processes: Mapping[str, Process]
    now: datetime


def compare(evidence: Evidence) -> Iterator[Hour]:
    """By hour, then process."""
    keys = evidence.held.keys() | evidence.captured.keys()
    for process, hour in sorted(keys, key=lambda key: (key[1], key[0])):
        yield _compare_one(evidence, (process, hour))


def _compare_one(evidence: Evidence, key: Key) -> Hour:
    captured, held = evidence.captured.get(key, Captured()), evidence.held.get(key, Held())
    process = evidence.processes.get(key[0])
    was_known = max(evidence.before.get(key, 0), held.highest())
    known = max(was_known, captured.num_accepted, captured.committed.highest())
    is_here = process is None or process.is_here
    is_ended = process is not None and process.is_ended
    rest = NumberSet.up_to(known) - captured.committed
    rejected = rest & (held.rejected if is_here else held.rejected | captured.rejected)
    rest -= rejected
    waiting = rest & held.finished
    rest -= waiting
    running = rest & held.accepted
    if not is_ended:  # numbers that were given since the disk was read
        running |= rest & (NumberSet.up_to(known) - NumberSet.up_to(was_known))
    rest -= running
    elsewhere = rest if process and _is_elsewhere(process, evidence.now) else NumberSet()
    return Hour(
        process=key[0],
        hour=key[1],
        num_accepted=known,
        num_spooled=len(captured.committed - captured.interrupted) + len(waiting) + len(rejected),
        committed=captured.committed,
        num_interrupted=len(captured.interrupted),
        num_running=len(running),
        num_waiting=len(waiting),
        num_rejected=len(rejected),
        num_elsewhere=len(elsewhere),
        uncaptured=captured.uncaptured,
        lost=rest - elsewhere,
    )


def _is_elsewhere(process: Process, now: datetime) -> bool:
    return not process.is_here and not process.is_ended and now - process.seen_at < SILENCE
