"""The worker and beat processes. The worker ticks when Celery says so, and by itself when Celery is silent.

Invariant: at most one tick runs in a process, and a broker that is gone, flushed or deaf stops nothing (B103, B105).
"""

import os
import socket
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic
from uuid import uuid4

import structlog
from celery import Celery
from celery.worker import state as celery_state

from ledger.database import check_database, sync_engine
from ledger.logs import configure_logs
from ledger.partitions import ensure_partitions
from trainer.beat import scheduler_with
from trainer.celery_app import PARTITIONS, QUEUE, TICK, create_celery
from trainer.lease import touch
from trainer.model_cache import ModelCache
from trainer.settings import TrainerSettings
from trainer.step import Trainer, tick

logger = structlog.get_logger()


class Ticker:
    """Runs ticks, one at a time; errors are logged, never raised: the next tick tries again."""

    def __init__(self, trainer: Trainer, run: Callable[[Trainer], object] = tick) -> None:
        self._trainer = trainer
        self._run = run
        self._lock = Lock()
        self._ended = Event()
        self.ticked_at = monotonic()

    def tick(self) -> bool:
        """False if another tick is running in this process."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._run(self._trainer)
        except Exception as error:
            logger.error("tick_failed", exc_info=error)  # noqa: TRY400 - structlog takes the error by name
        finally:
            self.ticked_at = monotonic()
            touch(self._trainer.settings.health_file)
            self._lock.release()
        return True

    def tick_when_silent(self) -> None:
        """Until `end()`: tick whenever none has run for `silence_seconds`."""
        settings = self._trainer.settings
        while not self._ended.wait(min(settings.tick_seconds, settings.silence_seconds)):
            if monotonic() - self.ticked_at >= settings.silence_seconds and self.tick():
                logger.info("ticked_without_broker", silence_seconds=settings.silence_seconds)

    def end(self) -> None:
        self._ended.set()


def run_worker(settings: TrainerSettings) -> None:
    """Blocks until SIGTERM. Raises LedgerError at once if the database cannot be used."""
    configure_logs("worker", settings.log_level)
    be_polite(settings)
    engine = sync_engine(settings.database_url)
    with engine.begin() as connection:
        check_database(connection)
        ensure_partitions(connection)
    trainer = Trainer(settings, engine, ModelCache(), owner_name(), is_stopping)
    ticker = Ticker(trainer)
    app = create_celery(settings)
    register_tasks(app, ticker)
    Thread(target=ticker.tick_when_silent, name="slipstream-ticker", daemon=True).start()
    try:
        app.worker_main(worker_arguments(settings))
    finally:
        ticker.end()
        engine.dispose()


def run_beat(settings: TrainerSettings) -> None:
    """Blocks until SIGTERM. The schedule lives in memory: nothing to corrupt, nothing to clean up."""
    configure_logs("beat", settings.log_level)
    app = create_celery(settings)
    beat = app.Beat(
        loglevel=settings.log_level, scheduler_cls=scheduler_with(settings.health_file), redirect_stdouts=False, quiet=True
    )
    beat.run()


def register_tasks(app: Celery, ticker: Ticker) -> None:
    trainer = ticker._trainer  # noqa: SLF001 - one module

    @app.task(name=TICK)  # type: ignore[untyped-decorator]
    def run_tick() -> None:
        ticker.tick()

    @app.task(name=PARTITIONS)  # type: ignore[untyped-decorator]
    def run_partitions() -> None:
        with trainer.engine.begin() as connection:
            made = ensure_partitions(connection)
        if made:
            logger.info("partitions_made", names=made)


def worker_arguments(settings: TrainerSettings) -> list[str]:
    return [
        "worker", "--pool=solo", f"--queues={QUEUE}", f"--loglevel={settings.log_level}",
        "--without-gossip", "--without-mingle", "--without-heartbeat",
    ]  # fmt: skip


def be_polite(settings: TrainerSettings) -> None:
    """Serving comes first: a lower priority, and no more threads than allowed."""
    os.nice(settings.niceness)
    if settings.threads:
        import torch

        torch.set_num_threads(settings.threads)


def is_stopping() -> bool:
    """Whether Celery was told to stop (SIGTERM, SIGINT): the step then gives its lease up."""
    return celery_state.should_stop is not None or celery_state.should_terminate is not None


def owner_name() -> str:
    """Unique to this process, so that a lease says whether its holder can still be alive."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
