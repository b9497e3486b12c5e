"""A start that can be stopped. Uvicorn looks at a signal only once the application has started, and ours may wait for
Postgres first.

Invariant: whoever handled the signal before is told of it as well.
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

_STOPPING = (signal.SIGTERM, signal.SIGINT)


class StartStoppedError(Exception):
    """The proxy was told to stop before it had started."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """What the current task does in here ends with StartStoppedError once the process is told to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not ours to handle
        return
    stop = _Stop()
    stop.listen()
    try:
        yield
    except asyncio.CancelledError:
        if not stop.has_come:
            raise
        raise StartStoppedError(StartStoppedError.__doc__) from None
    finally:
        stop.end()


class _Stop:
    def __init__(self) -> None:
        self.has_come = False
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._before: dict[int, signal._HANDLER] = {}

    def listen(self) -> None:
        for number in _STOPPING:
            self._before[number] = signal.signal(number, self._come)
        if any(_was_told(handler) for handler in self._before.values()):
            self._loop.call_soon(self._cancel)

    def end(self) -> None:
        self._is_over = True
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _come(self, number: int, frame: FrameType | None) -> None:
        handler = self._before[number]
        if callable(handler):
            handler(number, frame)
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self._is_over and not self.has_come:
            self.has_come = True
            assert self._task is not None
            self._task.cancel()


def _was_told(handler: object) -> bool:
    """Whether uvicorn noted a signal already: a worker process imports the application after it began to listen."""
    server = getattr(handler, "__self__", None)
    return isinstance(server, uvicorn.Server) and server.should_exit
