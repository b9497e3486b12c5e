"""A thread of the worker that looks when Celery wakes it, or by itself where Celery is silent: no tick waits for it.

Invariant: an error never ends it, and one look at a time runs in a process. It dies with the process: what it was at is
taken up after its lease.
"""

from collections.abc import Callable
from threading import Event, Thread

import structlog

logger = structlog.get_logger()


class Watch:
    """`look` is what it does; `close` is called once, when it ends."""

    def __init__(
        self,
        name: str,
        look: Callable[[], object],
        silence_seconds: float,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = name
        self.is_over = False
        self._look = look
        self._close = close
        self._silence_seconds = silence_seconds
        self._woken = Event()
        self._thread = Thread(target=self._run, name=f"slipstream-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def end(self, seconds: float = 0.0) -> None:
        """Waits so long for the look that runs."""
        self.is_over = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while True:
                self._woken.wait(self._silence_seconds)
                self._woken.clear()
                if self.is_over:
                    return
                try:
                    self._look()
                except Exception:
                    logger.exception("watch_failed", watch=self.name)
        finally:
            self._close()
