"""Celery and its broker misbehave: messages twice, at once, again after a time-out; Valkey restarted, flushed, away."""

import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.crashes.account import Expected
from bench.crashes.crew import TooLateError, wait_for
from bench.crashes.points import MIDDLE, Act, Fault
from bench.crashes.round import Round
from ledger.identifiers import new_id
from ledger.vocabulary import TICK_TASK, TRAINING_QUEUE
from trainer.celery_app import create_celery

_AWAY_SECONDS = 4.0
_NUM_COPIES = 5


def five_at_once(run: Round) -> Expected:
    """One tick, five times, to three workers; nobody else ticks."""
    for number in range(3):
        run.crew.worker(f"worker-{number}")
    wait_for("three workers", lambda: all("broker_ready" in run.crew.log(f"worker-{n}") for n in range(3)))
    run.add(1)
    _send(run, [str(new_id())] * _NUM_COPIES)
    run.await_published(1)
    wait_for("all five ticks", lambda: len(run.crew.ticks()) == _NUM_COPIES)
    return Expected(1, attempts=1)


def again_after_visibility_timeout(run: Round) -> Expected:
    """Acknowledged late, visible again after a second, and the step takes longer: what the product never asks for."""
    often = {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}  # how soon an idle worker looks
    late: dict[str, Any] = {
        "task_acks_late": True,
        "broker_transport_options": {"visibility_timeout": 1, **often},
    }
    run.crew.arm()
    run.crew.worker("first", Fault(MIDDLE, Act.HOLD), **late)
    wait_for("the first worker", lambda: "broker_ready" in run.crew.log("first"))
    run.add(1)
    _send(run, [str(new_id())])
    wait_for("its step", run.crew.has_fired)
    run.crew.worker("second", **late)
    wait_for("the message, delivered again", lambda: _delivered_twice(run))
    run.crew.release()
    run.await_published(1)
    return Expected(1, attempts=1)


def _delivered_twice(run: Round) -> bool:
    pids = defaultdict(set)
    for pid, task_id in run.crew.ticks():
        pids[task_id].add(pid)
    return any(len(found) > 1 for found in pids.values())


def _send(run: Round, task_ids: list[str]) -> None:
    """At once, from as many connections."""

    def send(task_id: str) -> None:
        with create_celery(run.settings) as app:
            app.send_task(TICK_TASK, queue=TRAINING_QUEUE, task_id=task_id)

    with ThreadPoolExecutor(len(task_ids)) as pool:
        list(pool.map(send, task_ids))


def valkey_restarted(run: Round) -> Expected:
    """SIGKILL in the middle of a step, started again and empty; worker and beat go on by themselves (B103)."""
    _begin_and_hold(run)
    run.stage.valkey.kill()
    run.stage.valkey.start()
    run.stage.flush()
    return _go_on(run)


def valkey_flushed(run: Round) -> Expected:
    """FLUSHALL in the middle of a step (B105)."""
    _begin_and_hold(run)
    run.stage.flush()
    return _go_on(run)


def connections_cut(run: Round) -> Expected:
    """Every client's connection is closed by Valkey in the middle of a step."""
    _begin_and_hold(run)
    run.stage.cut_connections()
    return _go_on(run)


def valkey_hangs(run: Round) -> Expected:
    """It takes connections and answers nobody, while a step ends and while another should begin."""
    _begin_and_hold(run)
    run.stage.valkey.tree.freeze()
    try:
        _go_on_without_broker(run)
    finally:
        run.stage.valkey.tree.thaw()
    return _hears_again(run)


def valkey_away(run: Round) -> Expected:
    """Away while a step ends and while another should begin: the worker ticks by itself."""
    _begin_and_hold(run)
    run.stage.valkey.kill()
    try:
        _go_on_without_broker(run)
    finally:
        run.stage.valkey.start()
    return _hears_again(run)


def _go_on_without_broker(run: Round) -> None:
    run.crew.release()
    run.await_published(1)
    run.add(2)
    run.await_published(2)
    time.sleep(_AWAY_SECONDS)


def _hears_again(run: Round) -> Expected:
    """The broker is back: its ticks come to a worker that was never restarted (B103)."""
    num_ticks = len(run.crew.ticks())
    run.add(3)
    run.await_published(3)
    wait_for("a tick by the broker", lambda: len(run.crew.ticks()) > num_ticks)
    return Expected(3, attempts=1)


def _begin_and_hold(run: Round) -> None:
    run.crew.beat()
    run.crew.arm()
    run.crew.worker("worker", Fault(MIDDLE, Act.HOLD))
    run.add(1)
    wait_for("its step", run.crew.has_fired)


def _go_on(run: Round) -> Expected:
    """The next step must come by the broker: nobody ticks by himself."""
    run.crew.release()
    run.await_published(1)
    run.add(2)
    run.await_published(2)
    if "ticked_without_broker" in run.crew.log("worker"):
        raise TooLateError("the worker had to tick by itself")
    return Expected(2, attempts=1)
