"""Sending a call to a replica that holds its version, and once more where that is safe: no byte of a reply was seen.

Invariant (I8): a learned name that a replica does not know is loaded there again, never answered by another model.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp

from proxy.errors import UpstreamBrokenError, UpstreamTimeoutError, UpstreamUnavailableError
from proxy.live import Target
from proxy.parts import Parts
from proxy.upstream.replicas import Replica, ReplicaState

_NOT_FOUND = 404
_SERVER_ERROR = 500
_MAX_BROKEN = 2


@asynccontextmanager
async def dispatched(
    parts: Parts, target: Target, body: bytes, request_id: str
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The reply, with its headers read. Leaving early closes the connection, which aborts the generation."""
    deadline = asyncio.get_running_loop().time() + parts.settings.upstream_wait_seconds
    attempts = _Attempts(parts, target, deadline)
    while True:
        replica = await parts.replicas.acquire(target, deadline)
        replica.num_inflight += 1
        try:
            response = await attempts.send(replica, body, request_id)
            if response is None:
                continue
            async with response:
                yield response
            return
        finally:
            replica.num_inflight -= 1


class _Attempts:
    """Counts what was tried for one call."""

    def __init__(self, parts: Parts, target: Target, deadline: float) -> None:
        self._parts = parts
        self._target = target
        self._deadline = deadline
        self._num_broken = 0
        self._has_reloaded = False

    async def send(self, replica: Replica, body: bytes, request_id: str) -> aiohttp.ClientResponse | None:
        """None = try again with another replica, or with this one when it is back."""
        try:
            response = await self._parts.vllm.chat(replica.url, body, request_id)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self._count("unreachable")
            self._parts.replicas.mark_down(replica, f"cannot be reached ({type(error).__name__})")
            return None
        except TimeoutError as error:
            raise UpstreamTimeoutError from error
        except (aiohttp.ClientError, OSError) as error:
            self._count_broken(error)
            return None
        if response.status >= _SERVER_ERROR and await self._is_dying(replica):
            response.close()
            self._count_broken(None)
            return None
        if response.status == _NOT_FOUND and self._target.version:
            response.close()
            await self._reload(replica)
            return None
        return response

    async def _is_dying(self, replica: Replica) -> bool:
        """Whether its engine died: vLLM answers 500 to every call then, until it ends."""
        await self._parts.replicas.check(replica)
        return replica.state is ReplicaState.DOWN

    def _count_broken(self, error: Exception | None) -> None:
        self._num_broken += 1
        if self._num_broken >= _MAX_BROKEN:
            raise UpstreamBrokenError from error
        self._count("broken")

    async def _reload(self, replica: Replica) -> None:
        if self._has_reloaded:
            name = self._target.public_model
            raise UpstreamUnavailableError(f"The model server keeps losing {name}; try again.", retry_after=5)
        self._has_reloaded = True
        self._count("adapter_lost")
        self._parts.replicas.forget(replica, self._target)
        with suppress(TimeoutError):  # acquiring says then what is missing
            async with asyncio.timeout_at(self._deadline):
                await self._parts.replicas.load(replica, self._target)

    def _count(self, reason: str) -> None:
        self._parts.metrics.upstream_retries.labels(reason).inc()
