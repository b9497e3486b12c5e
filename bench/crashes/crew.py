"""The workers and beat of a round: started, killed, stopped and waited for. Their supervisor is the bench."""

import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

from bench.crashes import hooks
from bench.crashes.entry import Job, run
from bench.crashes.points import Fault
from bench.crashes.stage import Stage

LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.02
Worker = BaseProcess


class TooLateError(Exception):
    """What a round waits for did not come."""


def wait_for(what: str, is_true: Callable[[], Any], seconds: float = LIMIT_SECONDS) -> float:
    """How many seconds it took. Raises TooLateError."""
    began = time.monotonic()
    while not is_true():
        if time.monotonic() - began > seconds:
            raise TooLateError(f"{what} did not come within {seconds:g} s")
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - began


class Crew:
    """Use as a context manager: whoever is left at its end is killed."""

    def __init__(self, stage: Stage, directory: Path, settings: dict[str, Any]) -> None:
        self._stage = stage
        self._directory = directory
        self._settings = settings
        self._members: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            if member.is_alive():
                member.kill()
            member.join(10)

    def worker(self, name: str, fault: Fault | None = None, **broker: Any) -> Worker:
        return self._start(Job(name, self._directory, self._settings, fault=fault, broker=broker))

    def beat(self) -> Worker:
        return self._start(Job("beat", self._directory, self._settings, is_beat=True))

    def _start(self, job: Job) -> Worker:
        member: Worker = self._stage.forks.Process(target=run, args=(job,), name=job.name)
        member.start()
        self._members.append(member)
        return member

    def arm(self) -> None:
        """The next one that comes to its point."""
        (self._directory / hooks.FIRED).unlink(missing_ok=True)
        (self._directory / hooks.ARMED).touch()

    def hold_again(self) -> None:
        (self._directory / hooks.GO).unlink(missing_ok=True)
        self.arm()

    def has_fired(self) -> bool:
        return (self._directory / hooks.FIRED).exists()

    def release(self) -> None:
        """Whoever holds still goes on."""
        (self._directory / hooks.GO).touch()

    def log(self, name: str) -> str:
        path = self._directory / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def ticks(self) -> list[tuple[str, str]]:
        """Process and message of each tick that was begun."""
        path = self._directory / "ticks"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        return [(pid, task_id) for line in lines for pid, task_id in [line.split()]]


def died(worker: Worker) -> bool:
    """By SIGKILL. Raises TooLateError where it ended in another way."""
    if worker.exitcode is None:
        return False
    if worker.exitcode != -signal.SIGKILL:
        raise TooLateError(f"{worker.name} ended with {worker.exitcode} instead of being killed")
    return True


def is_stopped(worker: Worker) -> bool:
    """By SIGSTOP."""
    stat = Path(f"/proc/{worker.pid}/stat")
    return stat.exists() and stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


def proceed(worker: Worker) -> None:
    assert worker.pid
    os.kill(worker.pid, signal.SIGCONT)
