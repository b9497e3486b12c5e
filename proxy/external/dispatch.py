"""A call on its way to another provider: by way of the process that holds LiteLLM.

What comes back is a reply like vLLM's, so it is relayed, recorded and broken off in the same way: leaving early closes
the connection, and the child closes the provider's.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog

from proxy.errors import UpstreamBrokenError, UpstreamTimeoutError
from proxy.external.model import ExternalModel
from proxy.external.process import LitellmProcess
from proxy.metrics import Metrics
from proxy.settings import ProxySettings
from proxy.surface.request import ModelRequest
from proxy.upstream.errors import ConnectError, SilentError, UpstreamError
from proxy.upstream.pool import UpstreamPool
from proxy.upstream.reply import UpstreamReply

log = structlog.get_logger()
_SERVER_ERROR = 500
_MAX_STARTS = 2


class External:
    """The way to other providers. Nothing is started before the first call."""

    def __init__(self, settings: ProxySettings, metrics: Metrics) -> None:
        self.process = LitellmProcess(settings)
        self.providers = settings.provider_names
        self._metrics = metrics
        self._idle_seconds = settings.upstream_idle_seconds
        self._pool = UpstreamPool(
            connect_seconds=settings.upstream_connect_seconds,
            keep_alive_seconds=settings.upstream_keep_alive_seconds,
        )

    async def close(self) -> None:
        await self._pool.close()
        await self.process.stop()

    @asynccontextmanager
    async def dispatched(
        self, model: ExternalModel, path: str, request: ModelRequest, call_id: str
    ) -> AsyncIterator[UpstreamReply]:
        """Like proxy.upstream.dispatch.dispatched. Raises ProxyError."""
        self._metrics.external_calls.labels(model.provider).inc()
        reply = await self._post(model, path, request, call_id)
        if reply.status >= _SERVER_ERROR:
            log.warning("external_failed", call_id=call_id, provider=model.provider, status=reply.status)
        try:
            yield reply
        finally:
            reply.release()

    async def _post(
        self, model: ExternalModel, path: str, request: ModelRequest, call_id: str
    ) -> UpstreamReply:
        body = request.document.rewritten({}, request.dropped)
        try:
            for _ in range(_MAX_STARTS):
                started = await self.process.started()
                headers = _headers(started.token, model, call_id)
                with suppress(ConnectError):  # it died, and nothing was asked yet
                    return await self._pool.request(
                        "POST", f"{started.url}{path}", headers, body, idle_seconds=self._idle_seconds
                    )
                await self.process.forget(started)
        except SilentError as error:
            raise UpstreamTimeoutError from error
        except UpstreamError as error:
            raise UpstreamBrokenError from error
        raise UpstreamBrokenError


def _headers(token: str, model: ExternalModel, call_id: str) -> list[tuple[str, str]]:
    """What the child needs to know beside the client's body. Nothing of the client's own headers."""
    told = {"provider": model.provider, "name": model.name, "call_id": call_id}
    return [("content-type", "application/json"), ("x-token", token), ("x-call", json.dumps(told))]
