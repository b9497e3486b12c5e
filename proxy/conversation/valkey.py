"""Valkey as far as a call may wait for it: a connection is kept by a task of its own, and asked only while it is well.

Invariant: after a failure nothing is asked for a second, and no call waits for a connection to be made.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from proxy.conversation.address import Address
from proxy.conversation.link import Answer, Link
from proxy.conversation.replies import ValkeyError

log = structlog.get_logger()
PAUSE_SECONDS = 1.0
_CONNECT_SECONDS = 2.0


class Valkey:
    """`count_failure` is called for each connection that was lost or could not be made."""

    def __init__(self, address: Address, limit_seconds: float, count_failure: Callable[[], None]) -> None:
        self._address = address
        self._limit_seconds = limit_seconds
        self._count_failure = count_failure
        self._link: Link | None = None

    def ask(self, *commands: Sequence[bytes]) -> Answer | None:
        """None: there is no connection now."""
        link = self._link
        return None if link is None or link.lost.is_set() else link.ask(commands)

    async def run(self) -> None:
        """Keeps a connection until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    self._link = await self._connected()
                await self._link.lost.wait()
            except (OSError, TimeoutError, ValkeyError) as error:
                log.warning("valkey_unreachable", error=type(error).__name__)
            finally:
                self.close()
            self._count_failure()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _connected(self) -> Link:
        link = await self._address.connect(partial(Link, self._limit_seconds))
        for greeting in self._address.greetings:
            if await link.ask([greeting]) is None:
                raise ValkeyError("it does not let us in")
        return link

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


def valkey_at(url: str | None, limit_seconds: float, count_failure: Callable[[], None]) -> Valkey | None:
    """None without REDIS_URL, or with one that names no single server."""
    if not url:
        return None
    try:
        return Valkey(Address.parse(url), limit_seconds, count_failure)
    except (ValueError, OSError) as error:
        log.warning("valkey_unusable", error=type(error).__name__)
        return None
