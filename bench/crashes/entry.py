"""The bench's own entry of a worker or of beat: real Celery processes, forked from a server that has torch loaded.

`run_worker` and `run_beat` are the product's; what is laid around them is a fault, a log, and a note of each tick's id.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch  # noqa: F401 - loaded once, in the server that forks
import transformers  # noqa: F401
from celery import Celery
from celery.signals import task_prerun

import trainer.step  # noqa: F401
from bench.crashes import hooks
from bench.crashes.points import Fault
from ledger.vocabulary import TICK_TASK
from trainer import worker
from trainer.celery_app import create_celery
from trainer.settings import TrainerSettings

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Job:
    """What a process is to do. `broker`: Celery options that the product would not choose, such as late acknowledgement."""

    name: str
    directory: Path
    settings: dict[str, Any]
    is_beat: bool = False
    fault: Fault | None = None
    broker: dict[str, Any] = field(default_factory=dict)


def run(job: Job) -> None:
    """In the forked child, until it is ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _log_to(job.directory / f"{job.name}.log")
    for name in [name for name in os.environ if name.startswith("SLIPSTREAM_")]:
        del os.environ[name]  # the bench says what it runs, not the caller's environment
    settings = TrainerSettings(**job.settings)
    if job.fault:
        hooks.lay(job.fault, job.directory)
    if job.broker:
        _change_broker(job.broker)
    _note_ticks(job.directory / "ticks")
    if job.is_beat:
        worker.run_beat(settings)
    else:
        worker.run_worker(settings)


def _log_to(path: Path) -> None:
    with path.open("ab", buffering=0) as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())


def _note_ticks(path: Path) -> None:
    """One line for each tick that a worker began: its process and the message's id."""

    def note(task_id: str, task: Any, **_: Any) -> None:
        if task.name == TICK_TASK:
            with path.open("a", encoding="ascii") as notes:
                notes.write(f"{os.getpid()} {task_id}\n")

    task_prerun.connect(note, weak=False)


def _change_broker(changes: dict[str, Any]) -> None:
    real: Callable[..., Celery] = create_celery

    def create(*args: Any, **kwargs: Any) -> Celery:
        app = real(*args, **kwargs)
        options = {**app.conf.broker_transport_options, **changes.get("broker_transport_options", {})}
        app.conf.update({**changes, "broker_transport_options": options})
        return app

    vars(worker)["create_celery"] = create
