"""The way of a record into the spool, in one thread of its own: the event loop never waits for the disk.

Invariant (I4): `finish` returns when the record is fsynced; all calls that wait at that moment share one fsync.
Records on their way are tracked, and `drain` waits for them at shutdown.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from ledger.errors import SpoolError
from ledger.records import CallRecord
from ledger.spool import Spool
from proxy.metrics import Metrics

log = structlog.get_logger()
_Waiting = list[tuple[CallRecord, asyncio.Future[None]]]
_Errors = list[SpoolError | None]
_UNENCODABLE = (TypeError, ValueError, RecursionError)  # what encode_call raises


class Recorder:
    def __init__(self, spool: Spool, metrics: Metrics, wake_writer: Callable[[], None]) -> None:
        self._spool = spool
        self._metrics = metrics
        self._wake_writer = wake_writer
        self._accepted: _Waiting = []
        self._finished: _Waiting = []
        self._flusher: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "spool")
        self.is_well = True  # the last write succeeded

    def accept(self, record: CallRecord) -> asyncio.Future[None]:
        """Done once the call will exist whatever happens to this process. Not fsynced. May hold a SpoolError."""
        return self._queue(self._accepted, record)

    def finish(self, record: CallRecord) -> asyncio.Future[None]:
        """Done once the record is durable; may hold a SpoolError. Cancelling the wait changes nothing."""
        return self._queue(self._finished, record)

    def _queue(self, waiting: _Waiting, record: CallRecord) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((record, future))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush())
        return future

    async def _flush(self) -> None:
        while self._accepted or self._finished:
            accepted, self._accepted = self._accepted, []
            await self._write(self._accept_all, accepted)
            finished, self._finished = self._finished, []
            await self._write(self._append_all, finished)
        self._flusher = None

    async def _write(self, write: Callable[[Sequence[CallRecord]], _Errors], waiting: _Waiting) -> None:
        if not waiting:
            return
        records = [record for record, _ in waiting]
        errors = await asyncio.get_running_loop().run_in_executor(self._thread, write, records)
        self.is_well = not any(errors)
        for (_, future), error in zip(waiting, errors, strict=True):
            _settle(future, error)

    def _accept_all(self, records: Sequence[CallRecord]) -> _Errors:
        return [_error_of(self._spool.accept, record) for record in records]

    def _append_all(self, records: Sequence[CallRecord]) -> _Errors:
        """Together; if one of them cannot be encoded, one by one, so that no other fails with it."""
        error = _error_of(self._spool.append, records)
        if error is None:
            self._metrics.spooled.inc(len(records))
            self._wake_writer()
        elif len(records) > 1 and isinstance(error.__cause__, _UNENCODABLE):
            return [error for record in records for error in self._append_all([record])]
        return [error] * len(records)

    async def drain(self) -> None:
        while self._flusher is not None:
            await asyncio.wait({self._flusher})
        self._thread.shutdown()


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


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():  # its call was cancelled meanwhile
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # a call that no longer waits is no unhandled error
