"""The client's connection as a call sees it: it tells when the client is gone, without a task that waits for it, and
takes parts of a stream without one.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope

_KEY = "slipstream.client"


class Client:
    """One per connection, which carries one running call at a time."""

    __slots__ = ("_running", "_transport", "is_chunked", "is_gone", "is_slow")

    def __init__(self) -> None:
        self.is_gone = False
        self.is_slow = False  # it has not read what was written yet
        self.is_chunked = True  # False: it knows no chunks
        self._running: asyncio.Task[object] | None = None
        self._transport: asyncio.Transport | None = None

    def connected(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    @property
    def is_writable(self) -> bool:
        return not (self.is_slow or self.is_gone or self._transport is None)

    def write_part(self, body: bytes) -> None:
        """A part of a stream whose head is out."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(body), body) if self.is_chunked else body)

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
