"""Reading a request: its body within the limits, and the moment at which its client hangs up."""

import asyncio
import re
from collections.abc import Iterable

from starlette.types import Receive

from proxy.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    EncodingRefusedError,
    HeadersTooLargeError,
    InvalidRequestError,
)
from proxy.settings import ProxySettings

_ODD_HOST = re.compile(r"[/?#@\\\s]")


class ClientGoneError(Exception):
    """The client hung up before its request was complete."""


def read_headers(raw: Iterable[tuple[bytes, bytes]], settings: ProxySettings) -> dict[str, str]:
    """Lower-case names; of a repeated header the first counts. Raises InvalidRequestError."""
    headers: dict[str, str] = {}
    num_bytes = 0
    for name, value in raw:
        num_bytes += len(name) + len(value) + 4
        headers.setdefault(name.decode("latin-1").lower(), _decoded(value))
    if num_bytes > settings.max_header_bytes:
        raise HeadersTooLargeError
    if _ODD_HOST.search(
        headers.get("host", "")
    ):  # nothing is decided on it, and nothing honest looks like that
        raise InvalidRequestError("The Host header is malformed.", param="Host")
    return headers


def _decoded(value: bytes) -> str:
    """UTF-8, as paths and bodies are, so that an id is the same wherever it stands; else HTTP's old latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def read_body(receive: Receive, headers: dict[str, str], settings: ProxySettings) -> bytes:
    """The whole body. Its declared length is believed only when it is too large."""
    if headers.get("content-encoding", "identity").lower() not in {"identity", ""}:
        raise EncodingRefusedError
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > settings.max_body_bytes:
        raise BodyTooLargeError
    try:
        async with asyncio.timeout(settings.body_seconds):
            return await _read(receive, settings.max_body_bytes)
    except TimeoutError as error:
        raise BodyTimeoutError from error


async def _read(receive: Receive, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        chunk = message.get("body", b"")
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            raise BodyTooLargeError
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def hang_up(receive: Receive) -> None:
    """Returns when the client is gone (or when the reply is complete)."""
    while (await receive())["type"] != "http.disconnect":
        pass
