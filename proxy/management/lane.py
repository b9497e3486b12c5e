"""A thread of its own for transactions. It is a daemon: a Postgres that never answers holds up no exit."""

import asyncio
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
_Work = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Lane:
    def __init__(self, name: str) -> None:
        self._works: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Its result. Works are done in their order."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._works.put((work, loop, future))
        return future

    def end(self) -> None:
        """Behind the works that wait."""
        self._works.put(None)

    def _run(self) -> None:
        while given := self._works.get():
            work, loop, future = given
            try:
                told = partial(future.set_result, work())
            except BaseException as error:  # noqa: BLE001 - whoever waits has it
                told = partial(future.set_exception, error)
            try:
                loop.call_soon_threadsafe(_tell, future, told)
            except RuntimeError:  # the loop is closed: nobody waits
                return


def _tell(future: "asyncio.Future[Any]", told: Callable[[], None]) -> None:
    if not future.done():
        told()
