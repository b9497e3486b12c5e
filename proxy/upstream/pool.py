"""The proxy's own HTTP/1.1 client: connections to all model servers, kept between requests.

Invariant: a request is repeated only where nothing of a reply was seen and the connection was an old one, which the
server may have closed at the moment of the request. The last one used is the first used again, so that the others grow old.
"""

import asyncio
import ssl
from typing import Self

from proxy.upstream.connection import Connection
from proxy.upstream.errors import BrokenError, ConnectError
from proxy.upstream.origin import Origin, destination_of, request_head
from proxy.upstream.reply import UpstreamReply

_CLOSING_TURNS = 100  # of the event loop


class UpstreamPool:
    def __init__(
        self, *, connect_seconds: float, keep_alive_seconds: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._connect_seconds = connect_seconds
        self._keep_alive_seconds = keep_alive_seconds
        self._tls = tls
        self._all: set[Connection] = set()
        self._idle: dict[Origin, dict[Connection, None]] = {}  # the inner one is an ordered set, newest last
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        url: str,
        headers: list[tuple[str, str]],
        body: bytes = b"",
        *,
        idle_seconds: float,
    ) -> UpstreamReply:
        """The reply, once its head is in; release() it. Raises UpstreamError, or ValueError for what cannot be sent."""
        destination = destination_of(url)
        head = request_head(method, destination, headers, len(body))
        if connection := self._kept(destination.origin):
            try:
                return await connection.exchange(method, head, body, idle_seconds)
            except BrokenError as error:
                if error.has_begun or not error.was_reused:
                    raise
        connection = await self._connect(destination.origin)
        return await connection.exchange(method, head, body, idle_seconds)

    async def close(self) -> None:
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._all:
            connection.close()
        for _ in range(_CLOSING_TURNS):
            if not self._all:
                break
            await asyncio.sleep(0)

    @property
    def num_connections(self) -> int:
        return len(self._all)

    @property
    def num_idle(self) -> int:
        return sum(len(kept) for kept in self._idle.values())

    async def _connect(self, origin: Origin) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: Connection(origin, loop, self._keep, self._forget),
                    origin.host,
                    origin.port,
                    ssl=self._tls_context() if origin.is_tls else None,
                )
        except TimeoutError as error:
            raise ConnectError(f"cannot be reached within {self._connect_seconds:g} s") from error
        except (OSError, UnicodeError) as error:
            raise ConnectError(f"cannot be reached ({type(error).__name__})") from error
        if not connection.is_lost:  # it may be gone already
            self._all.add(connection)
        if self._is_closed:
            connection.abort()
            raise ConnectError("The proxy is stopping.")
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _kept(self, origin: Origin) -> Connection | None:
        """The connection that was used last, if it is still good."""
        kept = self._idle.get(origin)
        oldest = asyncio.get_running_loop().time() - self._keep_alive_seconds
        while kept:
            connection, _ = kept.popitem()
            if connection.idle_since > oldest and not connection.is_closing:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection) -> None:
        self._idle.setdefault(connection.origin, {})[connection] = None
        if self._sweep is None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(self._keep_alive_seconds, self._close_old)

    def _forget(self, connection: Connection) -> None:
        self._all.discard(connection)
        if kept := self._idle.get(connection.origin):
            kept.pop(connection, None)

    def _close_old(self) -> None:
        self._sweep = None
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._keep_alive_seconds
        for kept in self._idle.values():
            for connection in list(kept):
                if connection.idle_since > oldest:
                    break
                del kept[connection]
                connection.abort()
        if self.num_idle:
            self._sweep = loop.call_later(self._keep_alive_seconds, self._close_old)
