"""What the proxy asks of a vLLM server: its models, an adapter loaded, a call answered."""

import asyncio
import json
from enum import StrEnum
from pathlib import Path
from typing import Self

from proxy.reply.error import message_in
from proxy.settings import ProxySettings
from proxy.upstream.errors import BrokenError, ConnectError, MalformedError, SilentError, UpstreamError
from proxy.upstream.pool import UpstreamPool
from proxy.upstream.reply import UpstreamReply

_CHECK_SECONDS = 5.0
_LOAD_SECONDS = 120.0
_OK = 200
_SERVER_ERROR = 500


class VllmUnreachableError(Exception):
    """The server does not accept connections, or says that it is not well."""


class VllmSilentError(Exception):
    """The server accepts connections but did not answer in time."""


class Loading(StrEnum):
    LOADED = "loaded"
    UNKNOWN = "unknown"  # the server finds no such adapter
    FAILED = "failed"


class VllmClient:
    """Speaks to all replicas over one pool of kept connections."""

    def __init__(self, settings: ProxySettings) -> None:
        self._idle_seconds = settings.upstream_idle_seconds
        self._pool = UpstreamPool(
            connect_seconds=settings.upstream_connect_seconds,
            keep_alive_seconds=settings.upstream_keep_alive_seconds,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def models(self, base_url: str) -> set[str]:
        """The names that a healthy server answers for."""
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                status, _ = await self._ask("GET", f"{base_url}/health")
                if status >= _SERVER_ERROR:
                    raise VllmUnreachableError(f"/health answers {status}")
                _, body = await self._ask("GET", f"{base_url}/v1/models")
            return {model["id"] for model in json.loads(body)["data"]}
        except (TimeoutError, SilentError) as error:
            raise VllmSilentError(f"did not answer within {_CHECK_SECONDS:g} s") from error
        except ConnectError as error:
            raise VllmUnreachableError(str(error)) from error
        except BrokenError as error:
            raise VllmUnreachableError("breaks off its replies") from error
        except (MalformedError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise VllmUnreachableError("/v1/models is not what vLLM answers") from error

    async def load_adapter(self, base_url: str, name: str, path: Path) -> tuple[Loading, str]:
        """Loads an adapter, or finds it loaded. Returns the result and what the server said."""
        asked = json.dumps({"lora_name": name, "lora_path": str(path)}).encode()
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                status, body = await self._ask("POST", f"{base_url}/v1/load_lora_adapter", asked)
        except (TimeoutError, UpstreamError) as error:
            return Loading.FAILED, type(error).__name__
        text = body.decode(errors="replace")
        if status == _OK or "already been loaded" in text:
            return Loading.LOADED, ""
        is_unknown = "No adapter found" in text or status == 404  # noqa: PLR2004 - HTTP
        return Loading.UNKNOWN if is_unknown else Loading.FAILED, message_in(text)

    async def post(self, base_url: str, path: str, body: bytes, request_id: str) -> UpstreamReply:
        """The reply, once its head is in. The caller releases it: before its end, that aborts the generation."""
        headers = [("content-type", "application/json"), ("x-request-id", request_id)]
        return await self._pool.request(
            "POST", f"{base_url}{path}", headers, body, idle_seconds=self._idle_seconds
        )

    async def _ask(self, method: str, url: str, body: bytes = b"") -> tuple[int, bytes]:
        headers = [("content-type", "application/json")] if body else []
        reply = await self._pool.request(method, url, headers, body, idle_seconds=_LOAD_SECONDS)
        try:
            return reply.status, await reply.read()
        finally:
            reply.release()
