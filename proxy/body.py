"""Reading a request: its headers and its body, within the limits."""

import asyncio
import re
import zlib
from collections.abc import Iterable

from starlette.types import Receive

from proxy.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    EncodingRefusedError,
    HeadersTooLargeError,
    InvalidRequestError,
)
from proxy.open_bodies import Room
from proxy.settings import ProxySettings

_MAX_REQUEST_ID = 128
_ENCODINGS = {"identity", "gzip", "x-gzip", "deflate"}
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_ODD_HOST = re.compile(r"[/?#@\\\s]")


class ClientGoneError(Exception):
    """The client hung up before its request was complete."""


def read_headers(raw: Iterable[tuple[bytes, bytes]], settings: ProxySettings) -> dict[str, str]:
    """Lower-case names; of a repeated header the first counts. Raises HeadersTooLargeError."""
    headers: dict[str, str] = {}
    num_bytes = 0
    for name, value in raw:
        num_bytes += len(name) + len(value) + 4
        headers.setdefault(name.decode("latin-1").lower(), _decoded(value))
    if num_bytes > settings.max_header_bytes:
        raise HeadersTooLargeError
    return headers


def usable_request_id(headers: dict[str, str]) -> str | None:
    """The caller's own, where a header and a column can hold it."""
    theirs = headers.get("x-request-id", "").strip()
    is_usable = theirs and theirs.isascii() and theirs.isprintable() and len(theirs) <= _MAX_REQUEST_ID
    return theirs if is_usable else None


def check_host(headers: dict[str, str]) -> None:
    """Nothing is decided on it, and nothing honest looks like that (CVE-2026-48746). Raises InvalidRequestError."""
    if _ODD_HOST.search(headers.get("host", "")):
        raise InvalidRequestError("The Host header is malformed.", param="Host")


def _decoded(value: bytes) -> str:
    """UTF-8, as paths and bodies are, so that an id is the same wherever it stands; else HTTP's old latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def read_body(
    receive: Receive, headers: dict[str, str], settings: ProxySettings, room: Room | None = None
) -> bytes:
    """The whole body, decompressed. Its declared length is believed only when it is too large."""
    encoding = headers.get("content-encoding", "").strip().lower() or "identity"
    if encoding not in _ENCODINGS:
        raise EncodingRefusedError
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > settings.max_body_bytes:
        raise BodyTooLargeError
    try:
        async with asyncio.timeout(settings.body_seconds):
            raw = await _read(receive, settings.max_body_bytes, room)
    except TimeoutError as error:
        raise BodyTimeoutError from error
    return raw if encoding == "identity" else _decompressed(raw, settings.max_body_bytes, room)


def _decompressed(raw: bytes, max_bytes: int, room: Room | None) -> bytes:
    """Gzip or zlib, and never more than the limit: a few bytes can hold gigabytes."""
    decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        body = decompressor.decompress(raw, max_bytes + 1)
    except zlib.error as error:
        raise InvalidRequestError("The body is not compressed as Content-Encoding says.") from error
    if len(body) > max_bytes:
        raise BodyTooLargeError
    if not decompressor.eof or decompressor.unused_data:
        raise InvalidRequestError("The compressed body is cut off, or more follows behind its end.")
    if room is not None:
        room.take(len(body))
    return body


async def _read(receive: Receive, max_bytes: int, room: Room | None) -> bytes:
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
        if room is not None:
            room.take(len(chunk))
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
