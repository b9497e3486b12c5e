"""What a transaction says of a process' calls, beside writing them: docs/decisions/0010-audit.md.

Invariant: saying it twice, or by two processes, changes nothing: sets of numbers are united, maxima are taken.
"""

import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import json
from sqlalchemy import text

from ledger.audit.call_numbers import Spooled, hour_of, moment_of
from ledger.audit.number_set import NumberSet
from ledger.direct import Question
from ledger.vocabulary import ExchangeStatus

_REPORT = text("""
    WITH reported AS (
        INSERT INTO capture_processes AS p (process, host, spool, num_damaged, ended_at)
        VALUES (:process, :host, :spool, :num_damaged, CASE WHEN CAST(:is_ended AS boolean) THEN now() END)
        ON CONFLICT (process) DO UPDATE SET
            seen_at = now(),
            num_damaged = greatest(p.num_damaged, excluded.num_damaged),
            ended_at = coalesce(p.ended_at, excluded.ended_at)
    )
    INSERT INTO capture_hours AS h (process, hour, num_accepted, committed, interrupted, rejected, uncaptured)
    SELECT :process, hour, num_accepted, CAST(committed AS int8multirange), CAST(interrupted AS int8multirange),
        CAST(rejected AS int8multirange), CAST(uncaptured AS jsonb)
    FROM unnest(
        CAST(:hours AS timestamptz[]), CAST(:accepted AS bigint[]), CAST(:committed AS text[]),
        CAST(:interrupted AS text[]), CAST(:rejected AS text[]), CAST(:uncaptured AS text[])
    ) AS sent (hour, num_accepted, committed, interrupted, rejected, uncaptured)
    ON CONFLICT (process, hour) DO UPDATE SET
        num_accepted = greatest(h.num_accepted, excluded.num_accepted),
        committed = h.committed + excluded.committed,
        interrupted = h.interrupted + excluded.interrupted,
        rejected = h.rejected + excluded.rejected - h.committed - excluded.committed,
        uncaptured = h.uncaptured || excluded.uncaptured
""")


@dataclass(slots=True)
class _Hour:
    num_accepted: int = 0
    committed: NumberSet = field(default_factory=NumberSet)
    interrupted: NumberSet = field(default_factory=NumberSet)
    rejected: NumberSet = field(default_factory=NumberSet)
    uncaptured: Mapping[str, int] = field(default_factory=dict)


class Report:
    """Of one process. Example: report.commit(batch.spooled); session.record(batch.records, report.question())."""

    def __init__(self, process: str, spool: Path) -> None:
        self._process = process
        self._spool = spool
        self._hours: dict[int, _Hour] = defaultdict(_Hour)
        self._num_damaged = 0

    def accept(self, accepted: Mapping[int, int]) -> "Report":
        """By hour: how many calls were accepted."""
        for hour, num_accepted in accepted.items():
            self._hours[hour].num_accepted = max(self._hours[hour].num_accepted, num_accepted)
        return self

    def commit(self, spooled: Iterable[Spooled]) -> "Report":
        for record, number in spooled:
            if number is not None:
                hour = self._hour(hour_of(record.call_id), number)
                hour.committed.add(number)
                if record.status is ExchangeStatus.INTERRUPTED:
                    hour.interrupted.add(number)
        return self

    def reject(self, spooled: Spooled) -> "Report":
        if spooled.number is not None:
            self._hour(hour_of(spooled.record.call_id), spooled.number).rejected.add(spooled.number)
        return self

    def leave_uncaptured(self, uncaptured: Mapping[int, Mapping[str, int]]) -> "Report":
        """By hour and reason, as absolute numbers."""
        for hour, counts in uncaptured.items():
            self._hours[hour].uncaptured = counts
        return self

    def damage(self, num_damaged: int) -> "Report":
        """Damaged places found so far."""
        self._num_damaged = num_damaged
        return self

    def _hour(self, hour: int, number: int) -> _Hour:
        found = self._hours[hour]
        found.num_accepted = max(found.num_accepted, number)
        return found

    def question(self, *, is_ended: bool = False) -> Question:
        hours = sorted(self._hours.items())
        return _REPORT, {
            "process": self._process,
            "host": socket.gethostname(),
            "spool": str(self._spool.absolute()),
            "num_damaged": self._num_damaged,
            "is_ended": is_ended,
            "hours": [moment_of(hour) for hour, _ in hours],
            "accepted": [held.num_accepted for _, held in hours],
            "committed": [str(held.committed) for _, held in hours],
            "interrupted": [str(held.interrupted) for _, held in hours],
            "rejected": [str(held.rejected) for _, held in hours],
            "uncaptured": [json.encode(dict(held.uncaptured)).decode() for _, held in hours],
        }
