"""The way of a record into the spool.

Invariant (I4): `finish` returns when the record is fsynced; all calls that wait at that moment share one fsync.
Records on their way are tracked, and `drain` waits for them at shutdown.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog
from ledger.spool import Spool

from ledger.errors import SpoolError
from ledger.records import CallRecord
from proxy.metrics import Metrics

log = structlog.get_logger()


class Recorder:
    def __init__(self, spool: Spool, metrics: Metrics, wake_writer: Callable[[], None]) -> None:
        self._spool = spool
        self._metrics = metrics
        self._waiting: list[tuple[CallRecord, asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "spool")
        self._wake_writer = wake_writer

    def accept(self, record: CallRecord) -> None:
        """The call exists from now on, whatever happens to this process. Raises SpoolError."""
        self._spool.accept(record)

    def finish(self, record: CallRecord) -> asyncio.Future[None]:
        """Done once the record is durable; holds a SpoolError if it cannot be. Cancelling it changes nothing."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, future))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush())
        return future

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            records = [record for record, _ in waiting]
            error: BaseException | None = None
            try:
                await loop.run_in_executor(self._thread, self._spool.append, records)
                self._metrics.spooled.inc(len(records))
                self._wake_writer()
            except (SpoolError, OSError) as failure:
                error = failure
                log.warning("spool_append_failed", num_records=len(records), error=str(failure))
            for _, future in waiting:
                _settle(future, error)
        self._flusher = None

    async def drain(self) -> None:
        while self._flusher is not None:
            await asyncio.wait({self._flusher})
        self._thread.shutdown()


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():  # its call was cancelled meanwhile
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # a call that no longer waits is no unhandled error
