"""The way of a record into the spool, fsynced in a thread of its own: the event loop never waits for the disk.

Invariant (I4): `finish` returns when the record is fsynced; all calls that wait at that moment share one fsync.
The thread is woken once and answers once for all that it finds. `drain` waits for what is on its way.
"""

import asyncio
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

import structlog

from ledger.codec import UNENCODABLE
from ledger.errors import SpoolError
from ledger.records import CallRecord
from ledger.spool.spool import Spool
from proxy.metrics import Metrics

log = structlog.get_logger()
_Future = asyncio.Future[None]
_Entry = tuple[bool, CallRecord, _Future]  # whether the call ended
_Errors = list[SpoolError | None]
_MOST_TOGETHER = 256
_MOST_BYTES_HERE = 256 << 10
_BUSY_RUNNING = (
    8  # so many calls at once, and an end so soon after the last: others end meanwhile, and share the fsync
)
_BUSY_SECONDS = 0.003
_LINGER_SECONDS = 0.001


class Recorder:
    def __init__(self, spool: Spool, metrics: Metrics, wake_writer: Callable[[], None]) -> None:
        self._spool = spool
        self._metrics = metrics
        self._wake_writer = wake_writer
        self._entries: SimpleQueue[_Entry | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = Thread(target=self._run, name="spool", daemon=True)
        self.is_well = True  # the last write succeeded

    def accept(self, record: CallRecord) -> _Future:
        """Done once the call will exist whatever happens to this process. Not fsynced. May hold a SpoolError.

        That is a copy into the page cache: where nothing is in its way it is made here, which costs less than to wake
        the thread twice.
        """
        is_small = len(record.raw_request or b"") <= _MOST_BYTES_HERE
        if not (is_small and self._entries.empty() and self._spool.is_idle):
            return self._queue(record, is_end=False)
        future: _Future = asyncio.get_running_loop().create_future()
        _settle_all([future], [_error_of(self._spool.accept, record)])
        return future

    def finish(self, record: CallRecord) -> _Future:
        """Done once the record is durable; may hold a SpoolError. Cancelling the wait changes nothing."""
        return self._queue(record, is_end=True)

    def _queue(self, record: CallRecord, *, is_end: bool) -> _Future:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._thread.start()
        future: _Future = self._loop.create_future()
        self._entries.put((is_end, record, future))
        return future

    async def drain(self) -> None:
        if self._loop is not None:
            self._entries.put(None)
            await asyncio.to_thread(self._thread.join)
            await asyncio.sleep(0)  # its last answers are in the loop's queue, before us

    def _run(self) -> None:
        assert self._loop is not None
        while entries := self._next_entries():
            begun = [entry for entry in entries if not entry[0]]
            ended = [entry for entry in entries if entry[0]]
            errors = [_error_of(self._spool.accept, record) for _, record, _ in begun]
            if ended:
                errors += self._append([record for _, record, _ in ended])
            self.is_well = not any(errors)
            futures = [future for _, _, future in (*begun, *ended)]
            self._loop.call_soon_threadsafe(_settle_all, futures, errors)

    def _next_entries(self) -> list[_Entry]:
        """What waits, at least one; nothing once all is written that came before the end."""
        entries: list[_Entry] = []
        entry = self._entries.get()
        while entry is not None:
            entries.append(entry)
            if len(entries) == _MOST_TOGETHER or self._entries.empty():
                return entries
            entry = self._entries.get()
        if entries:
            self._entries.put(None)  # the end comes next
        return entries

    def _append(self, records: Sequence[CallRecord]) -> _Errors:
        """Together; if one of them cannot be encoded, one by one, so that no other fails with it."""
        error = _error_of(self._spool.append, records)
        if error is None:
            self._metrics.spooled.inc(len(records))
            self._wake_writer()
        elif len(records) > 1 and isinstance(error.__cause__, UNENCODABLE):
            return [error for record in records for error in self._append([record])]
        return [error] * len(records)


def _error_of(write: Callable[..., None], argument: Any) -> SpoolError | None:
    """Whatever it is, each waiting call must hear of its own."""
    try:
        write(argument)
    except Exception as failure:  # noqa: BLE001 - see above
        log.warning("spool_write_failed", error=str(failure))
        if isinstance(failure, SpoolError):
            return failure
        error = SpoolError(str(failure))
        error.__cause__ = failure
        return error
    return None


def _settle_all(futures: Sequence[_Future], errors: _Errors) -> None:
    for future, error in zip(futures, errors, strict=True):
        if future.done():  # its call was cancelled meanwhile
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # a call that no longer waits is no unhandled error
