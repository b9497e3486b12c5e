"""Whole replies of our own: JSON, and the errors that end a call."""

import json

from starlette.types import Send

from proxy.errors import Envelope, ProxyError, openai_envelope

JSON_TYPE = (b"content-type", b"application/json")


async def send_json(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    length = (b"content-length", str(len(body)).encode())
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [JSON_TYPE, length, *(headers or [])],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})


async def send_error(
    send: Send,
    error: ProxyError,
    headers: list[tuple[bytes, bytes]] | None = None,
    envelope: Envelope = openai_envelope,
) -> None:
    body = json.dumps(envelope(error.object)).encode()
    await send_json(send, error.status, body, [*error.headers, *(headers or [])])
