"""Inside a worker of the bench: the fault is laid at its point, before the product's own entry runs.

It happens once for each file `armed` that the bench lays down, so a worker that was restarted goes on undisturbed.
"""

import os
import signal
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from bench.crashes.clock import jump
from bench.crashes.points import Act, Call, Commit, Fault

ARMED, FIRED, GO = "armed", "fired", "go"
DAY = 86_400
_HOLD_SECONDS = 60.0


def lay(fault: Fault, directory: Path) -> None:
    def happen() -> None:
        if _take(directory):
            ACTS[fault.act](directory)

    if isinstance(fault.point, Commit):
        _at_commit(fault.point, happen)
    else:
        _at_call(fault.point, happen)


def _take(directory: Path) -> bool:
    """Whether it is armed; whoever asks first has it."""
    try:
        (directory / ARMED).rename(directory / FIRED)
    except FileNotFoundError:
        return False
    return True


def _at_call(point: Call, happen: Callable[[], None]) -> None:
    module, _, name = point.owner.partition(":")
    owner = import_module(module)
    owner = getattr(owner, name) if name else owner
    real = getattr(owner, point.attribute)
    calls = 0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % point.nth == 0:
            happen()
        return real(*args, **kwargs)

    setattr(owner, point.attribute, wrapper)


def _at_commit(point: Commit, happen: Callable[[], None]) -> None:
    """A connection whose transaction moves a step into the point's state is remembered until it commits."""
    moving: set[int] = set()

    @event.listens_for(Engine, "before_cursor_execute")
    def note(connection: Any, _: Any, statement: str, parameters: Any, *__: Any) -> None:
        if _state_of(statement, parameters) == point.state:
            moving.add(id(connection.connection.dbapi_connection))

    real: Callable[..., None] = PGDialect_psycopg.do_commit

    def do_commit(dialect: Any, dbapi_connection: Any) -> None:
        raw = getattr(dbapi_connection, "dbapi_connection", dbapi_connection)
        is_it = id(raw) in moving
        moving.discard(id(raw))
        if is_it and not point.is_after:
            happen()
        real(dialect, dbapi_connection)
        if is_it and point.is_after:
            happen()

    PGDialect_psycopg.do_commit = do_commit  # type: ignore[method-assign]


def _state_of(statement: str, parameters: Any) -> str | None:
    if statement.startswith("INSERT INTO training_steps"):
        return "claimed"
    if statement.startswith("UPDATE training_steps SET state") and isinstance(parameters, dict):
        return str(parameters["state"])
    return None


def _die(_: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(_: Path) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _hold(directory: Path) -> None:
    deadline = time.monotonic() + _HOLD_SECONDS
    while not (directory / GO).exists() and time.monotonic() < deadline:
        time.sleep(0.02)


ACTS: dict[Act, Callable[[Path], None]] = {
    Act.DIE: _die,
    Act.STOP: _stop,
    Act.HOLD: _hold,
    Act.AHEAD: lambda _: jump(DAY),
    Act.BEHIND: lambda _: jump(-DAY),
}
