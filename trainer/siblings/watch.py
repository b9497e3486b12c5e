"""A thread of the worker makes siblings when Celery wakes it, or by itself where Celery is silent: no tick waits for it.

Invariant: an error never ends it, and one pass at a time runs in a process.
"""

from collections.abc import Callable
from threading import Event, Thread

import structlog

logger = structlog.get_logger()


class SiblingWatch:
    def __init__(self, make: Callable[[], int], silence_seconds: float) -> None:
        self._make = make
        self._silence_seconds = silence_seconds
        self._woken = Event()
        self._is_over = False

    def start(self) -> None:
        """It dies with the process: what it was at is taken up after its lease."""
        Thread(target=self._run, name="slipstream-siblings", daemon=True).start()

    def wake(self) -> None:
        self._woken.set()

    def end(self) -> None:
        self._is_over = True
        self._woken.set()

    def _run(self) -> None:
        while True:
            self._woken.wait(self._silence_seconds)
            self._woken.clear()
            if self._is_over:
                return
            try:
                self._make()
            except Exception:
                logger.exception("siblings_failed")
