"""Asking Postgres, bounded in time whatever it does.

A frozen server (or a network that swallows packets) answers neither a query nor its cancellation. So the question is
asked in a task of its own, which nobody waits for when the time is over. It rolls back when Postgres wakes up: whoever
was told 503 may have posted again, and the older post must not be written after the newer one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.errors import DatabaseUnreachableError
from proxy.errors import LedgerUnavailableError

log = structlog.get_logger()
WAIT_SECONDS = 15.0  # longer than a connection, or the wait for a free one, may take
UNREACHABLE = (DatabaseUnreachableError, OperationalError, InterfaceError, PoolTimeoutError, OSError)
MOST_TRIES = 5
_PASSING = ("40", "55P03")  # SQLSTATE: a deadlock, a lock that was not to be had
_unheard: set[asyncio.Task[Any]] = set()
T = TypeVar("T")


class TooLateError(Exception):
    """Nobody waits for this transaction any more."""


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Its result, or TimeoutError while it runs on to its end, unheard."""
    task = asyncio.create_task(work)
    _unheard.add(task)
    task.add_done_callback(_forget)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        raise TimeoutError
    return task.result()


async def in_transaction(engine: AsyncEngine, question: Callable[..., T], *arguments: Any) -> T:
    """What `question(connection, *arguments)` returns, committed; a deadlock is asked again. Raises
    LedgerUnavailableError; then nothing was written, unless Postgres fell silent in the commit itself.
    """
    is_awaited = True

    async def answer() -> T:
        async with engine.begin() as connection:
            result = await connection.run_sync(question, *arguments)
            if not is_awaited:
                raise TooLateError
            return result

    try:
        return await within(WAIT_SECONDS, _tried(answer))
    except UNREACHABLE as error:  # TimeoutError is an OSError
        is_awaited = False
        log.warning("database_unreachable", error=type(error).__name__)
        raise LedgerUnavailableError(retry_after=2) from error


async def _tried(answer: Callable[[], Coroutine[Any, Any, T]]) -> T:
    for _ in range(MOST_TRIES - 1):
        try:
            return await answer()
        except OperationalError as error:
            if not is_passing(error):
                raise
    return await answer()


def is_passing(error: Exception) -> bool:
    """Whether the same may well succeed when it is tried again."""
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return str(state or "").startswith(_PASSING)


def _forget(task: asyncio.Task[Any]) -> None:
    _unheard.discard(task)
    if not task.cancelled():
        task.exception()  # whoever waits has it; a task that nobody waits for is no unhandled error
