"""The client's connection as a call sees it: it tells when the client is gone, without a task that waits for it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope

_KEY = "slipstream.client"


class Client:
    """One per connection, which carries one running call at a time."""

    __slots__ = ("_running", "is_gone")

    def __init__(self) -> None:
        self.is_gone = False
        self._running: asyncio.Task[object] | None = None

    @contextmanager
    def cancelling_when_gone(self) -> Iterator[None]:
        """The current task is cancelled when the client goes, also if it is gone already."""
        self._running = asyncio.current_task()
        if self.is_gone:
            self.gone()
        try:
            yield
        finally:
            self._running = None

    def gone(self) -> None:
        self.is_gone = True
        if self._running is not None:
            self._running.cancel()

    def join(self, scope: Any) -> None:
        scope[_KEY] = self


def client_of(scope: Scope) -> Client:
    client: Client = scope[_KEY]
    return client
