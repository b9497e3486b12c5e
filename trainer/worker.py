"""The worker and beat processes. The worker ticks when Celery says so, and by itself when Celery is silent.

Invariant: a broker that is gone, flushed or deaf stops nothing (B103, B105). Torch is loaded by the worker alone, after
its start: never by beat, and never before a fork (B156).
"""

import logging
import os
import socket
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog
from celery import Celery
from celery.signals import worker_ready
from celery.worker import state as celery_state
from sqlalchemy import Connection, Engine

from ledger.database import check_database, sync_engine, translated_errors
from ledger.logs import configure_logs
from ledger.partitions import ensure_partitions
from ledger.upkeep import apply_retention
from ledger.vocabulary import TICK_TASK, TRAINING_QUEUE
from ledger.workers import worker_started
from trainer.beat import scheduler_with
from trainer.celery_app import JUDGE, PARTITIONS, RETENTION, RETENTION_SECONDS, SIBLINGS, create_celery
from trainer.judge.settings import JudgeSettings
from trainer.judge.thread import JudgeThread
from trainer.learners import known_learners, register
from trainer.policy_settings import served_together, trained_settings
from trainer.settings import TrainerSettings
from trainer.siblings.settings import SiblingSettings
from trainer.siblings.siblings import Siblings, make_siblings
from trainer.sinks.chosen import Sinks, chosen_sinks
from trainer.ticker import Ticker
from trainer.watch import Watch

if TYPE_CHECKING:
    from trainer.planner import Planner  # it knows torch, which is imported after be_polite

logger = structlog.get_logger()


def run_worker(settings: TrainerSettings, judge_settings: JudgeSettings | None = None) -> None:
    """Blocks until SIGTERM. Without settings of a judge it judges nothing. Raises LedgerError at once if the database, or
    another base model under the policy's name, makes work impossible; TrainerError if a sink's library is missing.
    """
    configure_logs("worker", settings.log_level)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each look at a model server
    chosen = chosen_sinks(settings)
    be_polite(settings)
    settings = fit(settings)
    engine = sync_engine(settings.database_url)
    with translated_errors(), engine.begin() as connection:
        check_database(connection)
        register(connection, trained_settings(settings))
        tell(connection, settings)
    with engine.connect() as connection:
        ensure_partitions(connection)
    ticker = make_ticker(settings, engine)
    siblings = make_watch(settings, engine, ticker)
    judge = JudgeThread(judge_settings, settings.silence_seconds)
    app = create_celery(settings)
    worker_ready.connect(tell_of_broker, weak=False)
    register_tasks(app, ticker, engine, judge)
    register_siblings(app, siblings)
    planner = make_planner(settings, engine)
    sinks = Sinks(chosen, engine, lambda: known_learners(engine, trained_settings(settings)))
    Thread(target=ticker.tick_when_silent, name="slipstream-ticker", daemon=True).start()
    Thread(target=planner.run, name="slipstream-planner", daemon=True).start()
    siblings.start()
    judge.start()
    sinks.start()
    try:
        app.worker_main(worker_arguments(settings))
    finally:
        planner.end()
        ticker.end()
        siblings.end()
        judge.end()
        sinks.end()
        engine.dispose()


def run_beat(settings: TrainerSettings) -> None:
    """Blocks until SIGTERM. The schedule lives in memory: nothing to corrupt, nothing to clean up."""
    configure_logs("beat", settings.log_level)
    scheduler = scheduler_with(settings.health_file)
    siblings = SiblingSettings.from_environment()
    every = siblings.pass_seconds if siblings.num_siblings else None
    beat = create_celery(settings, every).Beat(
        loglevel=settings.log_level, scheduler_cls=scheduler, redirect_stdouts=False, quiet=True
    )
    beat.run()


def make_ticker(settings: TrainerSettings, engine: Engine) -> Ticker:
    from transformers.utils import logging as transformers_logging

    from trainer.model_cache import ModelCache
    from trainer.step import Trainer, tick

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # a log is no place for one
    trainer = Trainer(settings, engine, ModelCache(settings.loaded_models), owner_name(), is_stopping)
    return Ticker(settings, lambda: tick(trainer))


def make_planner(settings: TrainerSettings, engine: Engine) -> "Planner":
    """Answers dry runs, also while a step is training."""
    from trainer.planner import Planner

    return Planner(settings, engine)


def fit(settings: TrainerSettings) -> TrainerSettings:
    """Within the memory that is free before the base is loaded."""
    from trainer.memory_plan import fitted  # it knows torch, which is imported after be_polite

    return fitted(settings)


def tell(connection: Connection, settings: TrainerSettings) -> None:
    """What this worker trains each of its policies with, for whoever explains what it will do."""
    owner = owner_name()
    for own in trained_settings(settings):
        worker_started(
            connection,
            policy=own.policy,
            base_model=own.base_model,
            owner=owner,
            settings=own.planning(),
        )


def tell_of_broker(sender: Any, **_: Any) -> None:
    """What holds, not what was asked for (B101): the shortest visibility time-out among the broker's clients wins, and
    it means nothing to us, since messages are acknowledged before the task runs.
    """
    channel = sender.connection.default_channel
    logger.info(
        "broker_ready",
        visibility_timeout_seconds=getattr(channel, "visibility_timeout", None),
        is_acknowledged_late=sender.app.conf.task_acks_late,
    )


def make_watch(settings: TrainerSettings, engine: Engine, ticker: Ticker) -> Watch:
    """Where siblings are off its passes look at two settings and end."""
    siblings = Siblings(
        SiblingSettings.from_environment(),
        JudgeSettings(database_url=settings.database_url),
        settings.upstream_urls,
        engine,
        lambda: known_learners(engine, served_together(settings)),
        owner_name(),
        lambda: ticker.is_ticking,
    )
    if siblings.settings.num_siblings and not siblings.is_on:
        logger.warning(
            "siblings_off", reason="nobody scores them: set SLIPSTREAM_SCORER_URL or SLIPSTREAM_JUDGE"
        )
    return Watch("siblings", lambda: make_siblings(siblings), settings.silence_seconds)


def register_siblings(app: Celery, watch: Watch) -> None:
    @app.task(name=SIBLINGS)  # type: ignore[untyped-decorator]
    def run_siblings() -> None:
        watch.wake()


def register_tasks(app: Celery, ticker: Ticker, engine: Engine, judge: JudgeThread) -> None:
    @app.task(name=TICK_TASK)  # type: ignore[untyped-decorator]
    def run_tick() -> None:
        ticker.tick()

    @app.task(name=JUDGE)  # type: ignore[untyped-decorator]
    def run_judge() -> None:
        judge.wake()

    @app.task(name=PARTITIONS)  # type: ignore[untyped-decorator]
    def run_partitions() -> None:
        with engine.connect() as connection:
            made = ensure_partitions(connection)
        if made:
            logger.info("partitions_made", names=made)

    @app.task(name=RETENTION)  # type: ignore[untyped-decorator]
    def run_retention() -> None:
        with engine.connect() as connection:
            removed, postponed = apply_retention(connection, seconds=RETENTION_SECONDS)
        for one in removed:
            event = "partition_dropped" if one.is_dropped else "rows_removed"
            logger.info(event, month=f"{one.month:%Y-%m}", table=one.table, num_rows=one.num_rows)
        for left in postponed:
            logger.warning("retention_postponed", month=f"{left.month:%Y-%m}", reason=left.reason)


def worker_arguments(settings: TrainerSettings) -> list[str]:
    """One task at a time in this very process; no chatter between workers: there is nothing to agree on."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return ["worker", "--pool=solo", f"--queues={TRAINING_QUEUE}", f"--loglevel={settings.log_level}", *quiet]


def be_polite(settings: TrainerSettings) -> None:
    """Serving comes first: a lower priority, no more threads than allowed, and none that spins while it waits.

    Call it before torch is imported: its thread pool reads OMP_WAIT_POLICY once.
    """
    os.nice(settings.niceness)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if settings.threads:
        import torch

        torch.set_num_threads(settings.threads)


def is_stopping() -> bool:
    """Whether Celery was told to stop (SIGTERM, SIGINT): the step then gives its lease up."""
    flags = (celery_state.should_stop, celery_state.should_terminate)
    return any(flag is not None and flag is not False for flag in flags)  # an exit code, which may be 0


def owner_name() -> str:
    """Unique to this process, so that a lease says whether its holder can still be alive."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
