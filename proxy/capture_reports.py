"""What this process tells the ledger about its own calls, and its metrics: from the spool's numbers and the counters.

Invariant: everything is an absolute number, so that a report which is lost, or comes twice, changes nothing.
"""

import time
from collections import Counter, defaultdict
from pathlib import Path

from ledger.audit.capture import Report
from ledger.spool.spool import Spool
from proxy.metrics import Metrics

_RECENT_HOURS = 2  # of which numbers may still grow: they are told again
_REPORT_SECONDS = 1.0
_SIGN_OF_LIFE_SECONDS = 60.0  # while calls run: an audit on another machine waits an hour for the next

_Told = tuple[dict[int, int], dict[int, dict[str, int]], int]  # accepted, uncaptured by reason, damaged


class CaptureReports:
    def __init__(self, spool: Spool, root: Path, metrics: Metrics) -> None:
        self._spool = spool
        self._root = root
        self._metrics = metrics
        self._seen: Counter[str] = Counter()  # as counted so far
        self._uncaptured: dict[int, Counter[str]] = defaultdict(Counter)  # hour -> reason -> how many
        self._told: _Told = ({}, {}, 0)
        self._telling: _Told = self._told
        self._told_at = 0.0
        self._since = 0  # the hour from which on something may not have been told

    @property
    def process(self) -> str:
        return self._spool.path.name

    def report(self) -> Report:
        """All that is known; `told` once it is committed."""
        accepted = self._spool.accepted()
        self._count(sum(accepted.values()))
        recent = {hour: num for hour, num in accepted.items() if hour >= self._since}
        uncaptured = {hour: dict(num) for hour, num in self._uncaptured.items() if hour >= self._since}
        num_damaged = self._spool.num_skipped
        self._telling = (recent, uncaptured, num_damaged)
        report = Report(self.process, self._root).accept(recent).leave_uncaptured(uncaptured)
        return report.damage(num_damaged)

    def told(self) -> None:
        self._told, self._told_at = self._telling, time.monotonic()
        if hours := {*self._told[0], *self._told[1]}:
            self._since = sorted(hours)[-_RECENT_HOURS:][0]

    def news(self) -> Report | None:
        """A report, if there is something to tell and the last one is not of this second."""
        silent_seconds = time.monotonic() - self._told_at
        if silent_seconds < _REPORT_SECONDS:
            return None
        report = self.report()
        is_due = self._spool.num_running > 0 and silent_seconds > _SIGN_OF_LIFE_SECONDS
        return report if is_due or self._telling != self._told else None

    def _count(self, num_accepted: int) -> None:
        """Into the metrics, and, what left no record, into the hour that it is."""
        spool, metrics = self._spool, self._metrics
        metrics.accepted.inc(self._grown("accepted", num_accepted))
        metrics.damaged.inc(self._grown("damaged", spool.num_skipped))
        metrics.lost.inc(self._grown("lost", spool.num_lost))
        metrics.unwritten.inc(self._leave("unwritten", spool.num_unwritten))
        for reason, num_calls in uncaptured_of(metrics).items():
            self._leave(reason, num_calls)

    def _leave(self, reason: str, now: int) -> int:
        if num_new := self._grown(reason, now):
            self._uncaptured[int(time.time()) // 3600][reason] += num_new
        return num_new

    def _grown(self, name: str, now: int) -> int:
        """Since it was last asked."""
        num_new, self._seen[name] = now - self._seen[name], now
        return num_new


def uncaptured_of(metrics: Metrics) -> dict[str, int]:
    """By reason."""
    samples = [sample for metric in metrics.uncaptured.collect() for sample in metric.samples]
    return {s.labels["reason"]: int(s.value) for s in samples if s.name.endswith("_total")}
