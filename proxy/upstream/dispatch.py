"""Sending a call to a replica that holds its version, and once more where that is safe: no byte of a reply was seen.

Invariant (I8): a learned name that a replica does not know is loaded there again, never answered by another model.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from proxy.errors import UpstreamBrokenError, UpstreamTimeoutError, UpstreamUnavailableError
from proxy.live import Target
from proxy.parts import Parts
from proxy.reply.error import error_in
from proxy.upstream.errors import BrokenError, ConnectError, MalformedError, SilentError
from proxy.upstream.replicas import Replica, ReplicaState
from proxy.upstream.reply import UpstreamReply

_NOT_FOUND = 404
_SERVER_ERROR = 500
_MAX_BROKEN = 2


@asynccontextmanager
async def dispatched(  # noqa: PLR0917 - what is sent, and where it may go
    parts: Parts, target: Target, path: str, body: bytes, request_id: str, affinity: bytes = b""
) -> AsyncIterator[UpstreamReply]:
    """The reply, with its head read. Leaving early closes the connection, which aborts the generation.

    `path` begins behind the replica's address, e.g. `/v1/chat/completions`; calls with the same `affinity` go to the
    same replica as long as it is not much busier than others. Raises ProxyError.
    """
    deadline = asyncio.get_running_loop().time() + parts.settings.upstream_wait_seconds
    attempts = _Attempts(parts, target, deadline)
    while True:
        replica = await parts.replicas.acquire(target, deadline, affinity)
        replica.num_inflight += 1
        try:
            reply = await attempts.send(replica, path, body, request_id)
            if reply is None:
                continue
            try:
                yield reply
            finally:
                reply.release()
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

    async def send(self, replica: Replica, path: str, body: bytes, request_id: str) -> UpstreamReply | None:
        """None = try again with another replica, or with this one when it is back."""
        try:
            reply = await self._parts.vllm.post(replica.url, path, body, request_id)
        except ConnectError as error:
            self._count("unreachable")
            self._parts.replicas.mark_down(replica, str(error))
            return None
        except SilentError as error:
            raise UpstreamTimeoutError from error
        except (BrokenError, MalformedError) as error:
            self._count_broken(error)
            return None
        try:
            is_answer = await self._is_answer(reply, replica)
        except (BrokenError, MalformedError) as error:
            reply.release()
            self._count_broken(error)
            return None
        except BaseException:
            reply.release()
            raise
        if not is_answer:
            reply.release()
            return None
        return reply

    async def _is_answer(self, reply: UpstreamReply, replica: Replica) -> bool:
        if reply.status >= _SERVER_ERROR and await self._is_dying(replica):
            self._count_broken(None)
            return False
        if reply.status == _NOT_FOUND and self._target.version and await _lacks_model(reply):
            await self._reload(replica)
            return False
        return True

    async def _is_dying(self, replica: Replica) -> bool:
        """Whether its engine died: vLLM answers 500 to every call then, until it ends."""
        await self._parts.replicas.check_anew(replica)
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


async def _lacks_model(reply: UpstreamReply) -> bool:
    """Whether the 404 is about the model; it may be about the route, too."""
    body = await reply.read()
    reply.put_back(body)
    _, error = error_in(body)
    return error is not None and error.get("message") != "Not Found"
