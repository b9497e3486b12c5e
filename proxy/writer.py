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
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ledger.codec import encode_call
from ledger.errors import DatabaseUnreachableError, SchemaBehindError
from ledger.recording_session import RecordingSession
from ledger.records import CallRecord
from ledger.spool import Spool
from ledger.spool_orphans import Orphan, adopt_orphans
from proxy.metrics import Metrics

log = structlog.get_logger()
_MAX_RECORDS = 200
_IDLE_SECONDS = 1.0
_LINGER_SECONDS = 0.18  # what comes within it is written together: a batch of 20 costs little more than one
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0
_SWITCH_SECONDS = (
    0.0005  # for so long the event loop may have to wait for this thread; Python's own 5 ms would be seen
)
# What no record is guilty of (no server, no schema, a deadlock): tried again. Anything else is a record's own fault.
_TRY_AGAIN = (
    DatabaseUnreachableError,
    SchemaBehindError,
    OperationalError,
    InterfaceError,
    InternalError,
    ProgrammingError,
    PoolTimeoutError,
    OSError,
)


class Writer:
    def __init__(
        self, spool: Spool, root: Path, engine: Engine, metrics: Metrics, adopt_seconds: float
    ) -> None:
        self._spool = spool
        self._root = root
        self._session = RecordingSession(engine)
        self._metrics = metrics
        self._adopt_seconds = adopt_seconds
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
        adopt_at = 0.0
        wait_seconds = _FIRST_WAIT_SECONDS
        while True:
            is_last = self._is_stopping.is_set()
            self._has_news.clear()
            try:
                while self._write_batch():
                    wait_seconds = _FIRST_WAIT_SECONDS
                    self._linger()
                if time.monotonic() >= adopt_at and not is_last:
                    adopt_at = time.monotonic() + self._adopt_seconds
                    self._adopt()
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

    def _linger(self) -> None:
        if self._spool.num_waiting < _MAX_RECORDS:
            self._is_stopping.wait(_LINGER_SECONDS)

    def _write_batch(self) -> bool:
        batch = self._spool.read_batch(_MAX_RECORDS)
        if not batch.records:
            return False
        self._write(batch.records)
        self._spool.commit(batch)
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
        records = iter(orphan.records())
        while chunk := list(islice(records, _MAX_RECORDS)):
            self._write(chunk)
            self._metrics.adopted.inc(len(chunk))
        orphan.remove()
        log.info("spool_adopted")

    def _write(self, records: Sequence[CallRecord]) -> None:
        try:
            self._commit(records)
        except _TRY_AGAIN:
            raise
        except Exception as error:  # noqa: BLE001 - one poisonous record must not hold up the others
            if len(records) > 1:
                for record in records:  # find the guilty one; the others are written
                    self._write([record])
            else:
                self._set_aside(records[0], error)

    def _commit(self, records: Sequence[CallRecord]) -> None:
        self._session.record(records)
        self._metrics.committed.inc(len(records))

    def _set_aside(self, record: CallRecord, error: Exception) -> None:
        path = self._root / "rejected" / f"{record.call_id}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode_call(record))
        self._metrics.rejected.inc()
        log.error("record_rejected", call_id=str(record.call_id), error=type(error).__name__, path=str(path))
