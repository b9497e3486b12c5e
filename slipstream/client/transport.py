"""Sends requests until they are answered or patience ends, over pooled connections. httpx2 is imported here, when used.

A pool belongs to the process, and for asyncio to the event loop, that opened it: after a fork, or in another loop,
there is a new one.
"""

import asyncio
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from slipstream.client.address import Address
from slipstream.client.patience import Answer, Patience
from slipstream.client.request import Request
from slipstream.client.result import InvalidArgumentError

if TYPE_CHECKING:
    import httpx2

Seen = Answer | Exception


class Transport:
    def __init__(
        self,
        address: Address,
        timeout_seconds: float,
        patience: Patience,
        http_client: "httpx2.Client | None" = None,
        refusal: str | None = None,
    ) -> None:
        self.address, self.refusal = address, refusal
        self._timeout_seconds, self._patience, self._given = timeout_seconds, patience, http_client
        self._pools: dict[int, httpx2.Client] = {}  # by process

    def send(self, request: Request, sleep: Callable[[float], object] = time.sleep) -> Seen:
        """What came of the last attempt. Raises what no repetition can mend: an address that is none."""
        num_failed = 0
        while True:
            seen = self._attempt(request)
            num_failed += 1
            wait_seconds = None if is_done(seen) else self._patience.wait_seconds(num_failed, seen)
            if wait_seconds is None:
                return seen
            sleep(wait_seconds)

    def close(self) -> None:
        if pool := self._pools.pop(os.getpid(), None):
            pool.close()

    def _attempt(self, request: Request) -> Seen:
        httpx2 = library()
        try:
            answer = self._client().request(**said(request, self.address, self._timeout_seconds))
        except httpx2.TransportError as error:
            return _checked(error)
        return answer_of(answer)

    def _client(self) -> "httpx2.Client":
        if self.refusal is not None:
            raise InvalidArgumentError(self.refusal)
        if self._given is not None:
            return self._given
        if pool := self._pools.get(os.getpid()):
            return pool
        made = library().Client()
        pool = self._pools.setdefault(os.getpid(), made)  # atomic, and no lock that a fork could copy locked
        if pool is not made:  # another thread was first
            made.close()
        return pool


class AsyncTransport:
    def __init__(
        self,
        address: Address,
        timeout_seconds: float,
        patience: Patience,
        http_client: "httpx2.AsyncClient | None" = None,
    ) -> None:
        self.address = address
        self._timeout_seconds, self._patience, self._given = timeout_seconds, patience, http_client
        self._pool: tuple[asyncio.AbstractEventLoop, httpx2.AsyncClient] | None = None

    async def send(self, request: Request) -> Seen:
        """As Transport.send."""
        num_failed = 0
        while True:
            seen = await self._attempt(request)
            num_failed += 1
            wait_seconds = None if is_done(seen) else self._patience.wait_seconds(num_failed, seen)
            if wait_seconds is None:
                return seen
            await asyncio.sleep(wait_seconds)

    async def close(self) -> None:
        if self._pool is not None and self._pool[0] is asyncio.get_running_loop():
            await self._pool[1].aclose()
        self._pool = None

    async def _attempt(self, request: Request) -> Seen:
        httpx2 = library()
        try:
            answer = await self._client().request(**said(request, self.address, self._timeout_seconds))
        except httpx2.TransportError as error:
            return _checked(error)
        return answer_of(answer)

    def _client(self) -> "httpx2.AsyncClient":
        if self._given is not None:
            return self._given
        if self._pool is None or self._pool[0] is not asyncio.get_running_loop():
            self._pool = asyncio.get_running_loop(), library().AsyncClient()
        return self._pool[1]


def library() -> ModuleType:
    """httpx2, imported when the first request is sent. Raises InvalidArgumentError where it is not installed."""
    try:
        import httpx2
    except ImportError as error:
        raise InvalidArgumentError("The client needs httpx2: pip install 'slipstream[client]'.") from error
    return httpx2


def is_done(seen: Seen) -> bool:
    return isinstance(seen, Answer) and seen.status < 400  # noqa: PLR2004 - HTTP


def said(request: Request, address: Address, seconds: float) -> dict[str, Any]:
    """What both kinds of httpx2's client are told. A long list has more time."""
    return {
        "method": request.method,
        "url": f"{address.url}{request.path}",
        "content": request.body,
        "headers": headers_of(address),
        "timeout": seconds * (1 + request.num_items // 100),
    }


def headers_of(address: Address) -> dict[str, str]:
    key = {"authorization": f"Bearer {address.key}"} if address.key else {}
    return {"content-type": "application/json", "user-agent": "slipstream-client", **key}


def answer_of(answer: "httpx2.Response") -> Answer:
    return Answer(answer.status_code, {k.lower(): v for k, v in answer.headers.items()}, answer.content)


def _checked(error: "httpx2.TransportError") -> Exception:
    """Raises the errors that stay: an address without http:// or https://."""
    if isinstance(error, library().UnsupportedProtocol):
        raise error
    return error
