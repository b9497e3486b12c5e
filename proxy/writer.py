"""From the spool to Postgres, in a thread of its own: calls never wait for it.

Invariant (I4, I10): the spool's cursor moves only after the commit; a record that Postgres refuses is set aside as a
file, counted and logged, and holds up no other. Postgres away: back-off, and the spool grows.
"""

import sys
import threading
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import structlog
from sqlalchemy import Engine

from ledger.audit.call_numbers import Spooled
from ledger.audit.capture import Report
from ledger.audit.rejected import rejected_paths, replay, set_aside
from ledger.erasure.sweeper import Sweeper
from ledger.recording_session import TRY_AGAIN, RecordingSession
from ledger.spool.orphans import Orphan, adopt_orphans
from ledger.spool.spool import Spool
from proxy.capture_reports import CaptureReports
from proxy.metrics import Metrics

log = structlog.get_logger()
_MAX_RECORDS = 200
_MAX_REPLAYED = 50  # of the rejected ones, before our own calls come again
_IDLE_SECONDS = 1.0
_LINGER_SECONDS = 0.14  # what comes within it is written together: a batch of 20 costs little more than one
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0
_SWITCH_SECONDS = (
    0.0005  # for so long the event loop may have to wait for this thread; Python's own 5 ms would be seen
)


class Writer:
    def __init__(
        self, spool: Spool, root: Path, engine: Engine, metrics: Metrics, adopt_seconds: float
    ) -> None:
        self._spool = spool
        self._root = root
        self._session = RecordingSession(engine)
        self._metrics = metrics
        self._sweeper = Sweeper(spool, self._session)
        self._reports = CaptureReports(spool, root, metrics)
        self._rejected = rejected_paths(root)  # tried again once: code or schema may be other ones now
        self._adopt_seconds = adopt_seconds
        self._adopt_at = 0.0
        self._has_news = threading.Event()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_to_the_end, name="writer", daemon=True)
        metrics.spool_waiting_bytes.set_function(lambda: spool.num_waiting_bytes)
        metrics.spool_waiting_records.set_function(lambda: spool.num_waiting)
        metrics.spool_waiting_seconds.set_function(lambda: spool.waiting_seconds)

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def wake(self) -> None:
        if not self._has_news.is_set():
            self._has_news.set()

    def stop(self, seconds: float) -> None:
        """Writes what is there if Postgres answers; what remains is adopted by the next process."""
        self._is_stopping.set()
        self._has_news.set()
        self._thread.join(seconds)

    def _run_to_the_end(self) -> None:
        try:
            self._run()
        finally:
            self._session.rest()

    def _run(self) -> None:
        wait_seconds = _FIRST_WAIT_SECONDS
        while True:
            is_last = self._is_stopping.is_set()
            self._has_news.clear()
            try:
                while self._write_batch():
                    wait_seconds = _FIRST_WAIT_SECONDS
                    self._look_around()
                    self._linger()
                self._look_around()
                self._report(is_last=is_last)
            except Exception as error:  # noqa: BLE001 - this thread ends only when it is told to
                self._metrics.commit_failures.inc()
                log.warning("commit_failed", error=type(error).__name__, wait_seconds=wait_seconds)
                if is_last:
                    return
                self._is_stopping.wait(wait_seconds)
                wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)
                continue
            if is_last:
                return
            if self._has_news.wait(_IDLE_SECONDS):
                self._linger()
            else:
                self._session.rest()

    def _look_around(self) -> None:
        """What dead processes left, what was rejected, what was erased: in its time, also where traffic never pauses."""
        if self._is_stopping.is_set():
            return
        if time.monotonic() >= self._adopt_at:
            self._adopt_at = time.monotonic() + self._adopt_seconds
            self._adopt()
            self._replay_rejected()
        self._sweeper.look()

    def _linger(self) -> None:
        if self._spool.num_waiting < _MAX_RECORDS:
            self._is_stopping.wait(_LINGER_SECONDS)

    def _write_batch(self) -> bool:
        num_waiting = self._spool.num_waiting
        batch = self._spool.read_batch(_MAX_RECORDS)
        if not batch.spooled and not num_waiting:
            return False
        if batch.spooled:
            self._write(self._reports.process, batch.spooled)
        self._spool.commit(batch)  # where nothing of what waits is whole, too
        return True

    def _adopt(self) -> None:
        """An orphan that cannot be read or written is left for the next look: it holds up nothing else."""
        for orphan in adopt_orphans(self._root):
            try:
                self._adopt_one(orphan)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, our own calls come first
                self._metrics.commit_failures.inc()
                log.warning("adoption_failed", path=str(orphan.directory.path), error=type(error).__name__)

    def _adopt_one(self, orphan: Orphan) -> None:
        """Not to its end where this process is to stop: the next one goes on with it."""
        spooled = iter(orphan.spooled())
        while chunk := list(islice(spooled, _MAX_RECORDS)):
            if self._is_stopping.is_set():
                return
            self._write(orphan.process, chunk)
            self._metrics.adopted.inc(len(chunk))
            self._write_batch()  # our own calls do not wait until a long outage is caught up
        self._metrics.damaged.inc(orphan.directory.num_skipped)
        ended = Report(orphan.process, self._root).damage(orphan.directory.num_skipped)
        self._session.record([], ended.question(is_ended=True))
        orphan.remove()
        log.info("spool_adopted")

    def _replay_rejected(self) -> None:
        """Each file once; what is refused again waits for the next start, or for `slipstream audit`."""
        results = replay(self._rejected[:_MAX_REPLAYED], self._root, self._session)
        self._rejected = self._rejected[_MAX_REPLAYED:]
        self._metrics.committed.inc(results["committed"])

    def _report(self, *, is_last: bool) -> None:
        """What no batch said: calls that run, calls that left no record, the end."""
        report = self._reports.report() if is_last else self._reports.news()
        if report is None or (is_last and not self._spool.accepted()):
            return
        is_ended = is_last and not (self._spool.num_waiting or self._spool.num_running)
        self._session.record([], report.question(is_ended=is_ended))
        self._reports.told()

    def _write(self, process: str, spooled: Sequence[Spooled]) -> None:
        try:
            self._commit(process, spooled)
        except TRY_AGAIN:
            raise
        except Exception as error:  # noqa: BLE001 - one poisonous record must not hold up the others
            if len(spooled) > 1:
                for one in spooled:  # find the guilty one; the others are written
                    self._write(process, [one])
            else:
                self._set_aside(process, spooled[0], error)

    def _commit(self, process: str, spooled: Sequence[Spooled]) -> None:
        is_own = process == self._reports.process
        report = self._reports.report() if is_own else Report(process, self._root)
        erased = self._session.record([record for record, _ in spooled], report.commit(spooled).question())
        if is_own:  # a dead process' files go when they are all committed
            self._sweeper.add(erased)
            self._reports.told()
        self._metrics.committed.inc(len(spooled))

    def _set_aside(self, process: str, spooled: Spooled, error: Exception) -> None:
        set_aside(self._root, process, spooled, error)
        self._session.record([], Report(process, self._root).reject(spooled).question())
        self._metrics.rejected.inc()
