"""Posts that nobody waits for: a bounded queue and one thread that sends it, many judgements as one list.

What finds the queue full, and what is left when time is up at exit, is dropped, counted, and said.
"""

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slipstream.client.answer import result_of, results_of
from slipstream.client.patience import Patience
from slipstream.client.request import Request, batches, list_of
from slipstream.client.result import Result, failed_by, logger, told
from slipstream.client.transport import Transport

PATIENCE = Patience(num_retries=20, max_wait_seconds=30)  # some eight minutes: a proxy that is being replaced


def patience_with(max_retries: int | None, *, is_background: bool) -> Patience:
    """The usual one, of somebody who waits or of the thread; with so many retries, where the caller says how many."""
    usual = PATIENCE if is_background else Patience()
    return usual if max_retries is None else replace(usual, num_retries=max_retries)


@dataclass(frozen=True)
class Counts:
    """Of judgements put into the queue: each is waiting, or one of the others."""

    num_waiting: int = 0
    num_sent: int = 0
    num_failed: int = 0
    num_dropped: int = 0


class Background:
    def __init__(self, transport: Transport, max_queued: int, flush_seconds: float) -> None:
        self._transport, self._max_queued, self._flush_seconds = transport, max_queued, flush_seconds
        self._begin()
        atexit.register(self.close)

    def _begin(self) -> None:
        """Also in a child after a fork: what the parent has queued, the parent sends."""
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._waiting = deque[Request]()
        self._counts = Counts()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def put(self, request: Request) -> Result:
        """At once: `queued` or `dropped`."""
        if self._pid != os.getpid():
            self._begin()
        with self._changed:
            if self._is_closed or self._counts.num_waiting >= self._max_queued:
                return self._dropped(request)
            self._waiting.append(request)
            self._count(num_waiting=1)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="slipstream-client", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return Result(ok=True, status="queued", id=request.id)

    @property
    def counts(self) -> Counts:
        return self._counts

    def flush(self, seconds: float | None = None) -> bool:
        """Waits until everything is sent; False if something still waits after `seconds`."""
        if self._pid != os.getpid():
            return True
        deadline = time.monotonic() + (self._flush_seconds if seconds is None else seconds)
        self._hurry.set()
        try:
            with self._changed:
                return self._changed.wait_for(
                    lambda: not self._counts.num_waiting, deadline - time.monotonic()
                )
        finally:
            self._hurry.clear()

    def close(self) -> None:
        """Flushes, then takes no more. Called at exit. What is left is dropped."""
        if self._pid != os.getpid() or self._is_closed:
            return
        self.flush()
        with self._changed:
            self._is_closed = True
            num_left = self._counts.num_waiting
            self._waiting.clear()
            self._count(num_waiting=-num_left, num_dropped=num_left)
            self._changed.notify_all()
        atexit.unregister(self.close)
        if self._counts.num_dropped:
            logger.warning("judgements_dropped num_dropped=%d", self._counts.num_dropped)

    def _dropped(self, request: Request) -> Result:
        self._count(num_dropped=1)
        why = "The client is closed." if self._is_closed else f"{self._max_queued} judgements wait already."
        return Result(ok=False, status="dropped", error=why, id=request.id)

    def _run(self) -> None:
        while batch := self._next():
            try:
                results = self._send(batch)
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread goes on with the next
                results = [failed_by(error)] * len(batch)
            told(results, raises=False)
            num_sent = sum(result.ok for result in results)
            with self._changed:
                if self._is_closed:  # time was up: they count as dropped
                    return
                self._count(num_waiting=-len(batch), num_sent=num_sent, num_failed=len(results) - num_sent)
                self._changed.notify_all()

    def _next(self) -> list[Request]:
        """What is sent together; empty when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                return []
            first = self._waiting[0]
            together = [first] if first.item is None else next(batches(self._listable()))
            for _ in together:
                self._waiting.popleft()
            return together

    def _listable(self) -> list[Request]:
        """From the front, as many as can stand in a list."""
        found = list[Request]()
        for request in self._waiting:
            if request.item is None:
                break
            found.append(request)
        return found

    def _send(self, batch: Sequence[Request]) -> list[Result]:
        if len(batch) == 1:
            return [result_of(batch[0], self._transport.send(batch[0], self._sleep))]
        return results_of(batch, self._transport.send(list_of(batch), self._sleep))

    def _sleep(self, seconds: float) -> None:
        """Shorter while somebody waits in flush()."""
        if self._hurry.wait(seconds):
            time.sleep(min(seconds, 0.25))

    def _count(self, **changes: int) -> None:
        now = {name: getattr(self._counts, name) + change for name, change in changes.items()}
        self._counts = replace(self._counts, **now)
