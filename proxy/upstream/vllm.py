"""What the proxy asks of a vLLM server: its models, an adapter loaded, a chat answered."""

import asyncio
import json
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import aiohttp

from proxy.settings import ProxySettings

_CHECK_SECONDS = 5.0
_LOAD_SECONDS = 120.0
_OK = 200
_SERVER_ERROR = 500
# vLLM closes idle connections after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE): ours must be the one that closes first.
_KEEP_ALIVE_SECONDS = 4.0


class VllmUnreachableError(Exception):
    """The server does not accept connections, or says that it is not well."""


class VllmSilentError(Exception):
    """The server accepts connections but did not answer in time."""


class Loading(StrEnum):
    LOADED = "loaded"
    UNKNOWN = "unknown"  # the server finds no such adapter
    FAILED = "failed"


class VllmClient:
    """A pool of kept-alive connections to all replicas."""

    def __init__(self, settings: ProxySettings) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=settings.upstream_connect_seconds,
                sock_read=settings.upstream_idle_seconds,
            ),
            headers={"accept-encoding": "identity"},
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def models(self, base_url: str) -> set[str]:
        """The names that a healthy server answers for."""
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                async with self._session.get(f"{base_url}/health") as response:
                    if response.status >= _SERVER_ERROR:
                        raise VllmUnreachableError(f"/health answers {response.status}")
                async with self._session.get(f"{base_url}/v1/models") as response:
                    body = await response.json(content_type=None)
            return {model["id"] for model in body["data"]}
        except aiohttp.ConnectionTimeoutError as error:
            raise VllmUnreachableError("cannot be reached (time-out)") from error
        except TimeoutError as error:
            raise VllmSilentError(f"did not answer within {_CHECK_SECONDS:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise VllmUnreachableError(f"cannot be reached ({type(error).__name__})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise VllmUnreachableError("/v1/models is not what vLLM answers") from error

    async def load_adapter(self, base_url: str, name: str, path: Path) -> tuple[Loading, str]:
        """Loads an adapter, or finds it loaded. Returns the result and what the server said."""
        body = {"lora_name": name, "lora_path": str(path)}
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                async with self._session.post(f"{base_url}/v1/load_lora_adapter", json=body) as response:
                    text = await response.text(errors="replace")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return Loading.FAILED, type(error).__name__
        if response.status == _OK or "already been loaded" in text:
            return Loading.LOADED, ""
        is_unknown = "No adapter found" in text or response.status == 404  # noqa: PLR2004 - HTTP
        return Loading.UNKNOWN if is_unknown else Loading.FAILED, message_in(text)

    async def chat(self, base_url: str, body: bytes, request_id: str) -> aiohttp.ClientResponse:
        """Headers have arrived when this returns. The caller closes the response: that aborts the generation."""
        headers = {"content-type": "application/json", "x-request-id": request_id}
        return await self._session.post(f"{base_url}/v1/chat/completions", data=body, headers=headers)


def error_in(raw: bytes | str) -> tuple[dict[str, Any] | None, bool]:
    """The error object of a reply, and whether it stood there in OpenAI's shape already."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None, False
    if not isinstance(body, dict):
        return None, False
    if isinstance(error := body.get("error"), dict):
        return error, True
    message = body.get("error") or body.get("detail") or body.get("message")
    if message is None:
        return None, False
    text = message if isinstance(message, str) else json.dumps(message)
    fields = {key: body.get(key) for key in ("type", "param", "code")}
    return {"message": text, **fields}, False


def openai_error(raw: bytes, status: int) -> tuple[bytes, dict[str, Any]]:
    """What the client gets for an error of vLLM's: its bytes if they have OpenAI's shape, else an envelope."""
    error, is_openai = error_in(raw)
    if error and is_openai:
        return raw, error
    error = error or {"message": raw.decode(errors="replace")[:2000] or f"vLLM answered {status}."}
    kind = "invalid_request_error" if status < _SERVER_ERROR else "server_error"
    error = {
        "message": error["message"],
        "type": error.get("type") or kind,
        "param": error.get("param"),
        "code": error.get("code"),
    }
    return json.dumps({"error": error}).encode(), error


def message_in(text: str) -> str:
    error, _ = error_in(text)
    return str(error.get("message")) if error else text[:500]
