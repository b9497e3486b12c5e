"""A thread with a connection of its own, for one transaction after the other.

The thread is a daemon: a Postgres that never answers holds up no exit. The connection is kept while there is work, and
given back after any failure and after a pause, so that a restarted Postgres is met by a new one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

T = TypeVar("T")
_IDLE_SECONDS = 1.0
_Work = tuple[Callable[[Connection], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Lane:
    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._works: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def transaction(self, question: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """What it answers, committed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._works.put((question, loop, future))
        return future

    def end(self, seconds: float) -> None:
        """Behind what was asked before; waits no longer than that for it."""
        self._works.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while given := self._next():
            question, loop, future = given
            try:
                told = partial(future.set_result, self._answer(question))
            except BaseException as error:  # noqa: BLE001 - whoever waits has it
                told = partial(future.set_exception, error)
            try:
                loop.call_soon_threadsafe(_tell, future, told)
            except RuntimeError:  # the loop is closed: nobody waits
                break
        self._rest()

    def _next(self) -> _Work | None:
        try:
            return self._works.get(timeout=_IDLE_SECONDS)
        except Empty:
            self._rest()
            return self._works.get()

    def _answer(self, question: Callable[[Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            with self._connection.begin():
                return question(self._connection)
        except BaseException:
            self._rest()
            raise

    def _rest(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _tell(future: "asyncio.Future[Any]", told: Callable[[], None]) -> None:
    if not future.done():
        told()
