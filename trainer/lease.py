"""The lease of a running step: extended from a thread with its own connection, checked between rows of the batch.

Invariant: a holder that could not extend for a whole lease stops by itself, by its own monotonic clock, before
anybody can have taken over by Postgres' clock.
"""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Self

import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from ledger.database import sync_engine
from trainer.claim import Step
from trainer.errors import LeaseLostError, StepStoppedError
from trainer.health import touch
from trainer.settings import TrainerSettings

logger = structlog.get_logger()

EXTEND = text(
    "UPDATE training_steps SET lease_expires_at = clock_timestamp() + make_interval(secs => :lease_seconds)"
    " WHERE id = :id AND fencing_token = :token AND lease_owner IS NOT NULL"
)


class Lease:
    """Use as a context manager around the step's work; call `check()` wherever the work may stop."""

    def __init__(
        self,
        step: Step,
        settings: TrainerSettings,
        should_stop: Callable[[], bool] = lambda: False,
        given_at: float | None = None,
    ) -> None:
        """`given_at`: the monotonic time just before Postgres gave the lease; None = now."""
        self._step = step
        self._settings = settings
        self._should_stop = should_stop
        self._ended = Event()
        self._lost = Event()
        self._extended_at = monotonic() if given_at is None else given_at
        self._thread = Thread(target=self._run, name="slipstream-lease", daemon=True)

    def check(self) -> None:
        """Raises LeaseLostError or StepStoppedError when the work must not go on."""
        if self._lost.is_set() or monotonic() - self._extended_at > self._settings.lease_seconds:
            raise LeaseLostError
        if self._should_stop():
            raise StepStoppedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        engine = sync_engine(self._settings.database_url, pool_size=1)
        values = {
            "id": self._step.id,
            "token": self._step.fencing_token,
            "lease_seconds": self._settings.lease_seconds,
        }
        while not self._ended.wait(self._settings.lease_seconds / 4):
            started_at = monotonic()
            try:
                with engine.begin() as connection:
                    is_ours = connection.execute(EXTEND, values).rowcount == 1
            except SQLAlchemyError as error:
                logger.warning("lease_not_extended", step_id=str(self._step.id), error=type(error).__name__)
                continue
            if not is_ours:
                self._lost.set()
                break
            self._extended_at = started_at
            touch(self._settings.health_file)
        engine.dispose()
