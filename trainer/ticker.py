"""Runs ticks, one at a time, for whoever asks: Celery, or the ticker itself when Celery is silent.

Invariant: an error never ends the worker; the next tick tries again.
"""

from collections.abc import Callable
from threading import Event, Lock
from time import monotonic

import structlog

from trainer.health import touch
from trainer.settings import TrainerSettings

logger = structlog.get_logger()


class Ticker:
    """`run` does one tick; `ticked_at` is the monotonic time at which the last one ended."""

    def __init__(self, settings: TrainerSettings, run: Callable[[], object]) -> None:
        self._settings = settings
        self._run = run
        self._lock = Lock()
        self._ended = Event()
        self.ticked_at = monotonic()

    @property
    def is_ticking(self) -> bool:
        return self._lock.locked()

    def tick(self) -> bool:
        """False if another tick is running in this process."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._run()
        except Exception:
            logger.exception("tick_failed")
        finally:
            self.ticked_at = monotonic()
            touch(self._settings.health_file)
            self._lock.release()
        return True

    def tick_when_silent(self) -> None:
        """Until `end()`: tick whenever none has run for `silence_seconds`."""
        silence_seconds = self._settings.silence_seconds
        while not self._ended.wait(min(self._settings.tick_seconds, silence_seconds)):
            if monotonic() - self.ticked_at >= silence_seconds and self.tick():
                logger.info("ticked_without_broker", silence_seconds=silence_seconds)

    def end(self) -> None:
        self._ended.set()
