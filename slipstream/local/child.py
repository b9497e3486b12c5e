"""One child of the stack: what it is (ChildSpec) and the state machine of its life (Child).

The process that we start is always the leash; it exits when, and only when, the whole tree below it is gone.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from slipstream.local import leash
from slipstream.local.logtail import rotate, tail

MAX_BACK_OFF_SECONDS = 30
STEADY_SECONDS = 60  # ready for so long: the next failure is a first one again


class State(StrEnum):
    """See the drawing in docs/decisions/0005-local-stack.md."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DONE = "done"
    BACKING_OFF = "backing off"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ChildSpec:
    """`ready` makes a real request and returns "" when it was answered, else what is missing. No command: an
    outside server, only probed. `before` runs ahead of every start and removes what a crash left.
    """

    name: str
    remedy: str
    ready: Callable[[], str] = lambda: ""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    before: Callable[[], None] = lambda: None
    is_one_shot: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    grace_seconds: float = 10
    start_seconds: float = 60
    user: str = "-"


class Child:
    """A spec with its process. Only the supervisor's loop calls these methods."""

    def __init__(self, spec: ChildSpec, log: Path) -> None:
        self.spec, self.log = spec, log
        self.state = State.WAITING
        self.process: subprocess.Popen[bytes] | None = None
        self.num_failures = 0
        self.started_at = self.ready_at = self.next_start_at = 0.0
        self.missing = ""
        self._pipe = -1
        self._log_start = 0

    @property
    def is_up(self) -> bool:
        return self.state in (State.READY, State.DONE)

    def start(self) -> None:
        self.spec.before()
        self.started_at, self.state = time.monotonic(), State.STARTING
        if self.spec.command:
            self._log_start = rotate(self.log)
            self._spawn()

    def _spawn(self) -> None:
        read_end, self._pipe = os.pipe()
        spec = self.spec
        options = [str(read_end), str(int(spec.stop_signal)), str(spec.grace_seconds), spec.user, "--"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", leash.__file__, *options, *spec.command],
                env=dict(spec.environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[read_end], start_new_session=True,
            )  # fmt: skip
        os.close(read_end)

    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    def is_late(self) -> bool:
        return self.state is State.STARTING and self.seconds() > self.spec.start_seconds

    def seconds(self) -> float:
        return time.monotonic() - self.started_at if self.started_at else 0.0

    def became(self, state: State) -> None:
        self.state = state
        if state is State.READY:
            self.ready_at = time.monotonic()

    def back_off(self) -> float:
        """Schedule the next start; returns the delay in seconds: 1, 2, 4 … 30."""
        if self.ready_at and time.monotonic() - self.ready_at > STEADY_SECONDS:
            self.num_failures = 0
        delay = min(2.0**self.num_failures, MAX_BACK_OFF_SECONDS)
        self.num_failures += 1
        self.next_start_at, self.state = time.monotonic() + delay, State.BACKING_OFF
        return delay

    def order(self, word: bytes) -> None:
        """Tell the leash: b"S" stop within the grace, b"K" kill now."""
        if self._pipe >= 0:
            try:
                os.write(self._pipe, word)
            except BrokenPipeError:
                return

    def end(self, seconds: float | None = None) -> None:
        """Stop and wait until the whole tree is gone. Bounded: the grace, or `seconds`, and the kill after it."""
        if self.process and self.process.poll() is None:
            self.order(b"S" if seconds is None else b"K")
            try:
                self.process.wait((self.spec.grace_seconds if seconds is None else seconds) + 8)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        pipe, self.process, self._pipe = self._pipe, None, -1  # a second Ctrl-C must not find it closed
        if pipe >= 0:
            os.close(pipe)

    def last_lines(self, count: int = 15) -> list[str]:
        """The last lines of its log, of this start only."""
        return tail(self.log, count, self._log_start) if self.spec.command else []
