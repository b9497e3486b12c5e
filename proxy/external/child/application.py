"""The port that the proxy asks: one call a request, broken off when the proxy closes the connection.

Invariant: an error before the first byte is a status, an error after it is an event of the stream, which then has no end.
"""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope, Send

from proxy.external.child.calls import Asked, Calls
from proxy.external.child.failures import Failure, failure_of
from proxy.external.child.shapes import DONE, event_of, json_of

_CANCELLED_SECONDS = 1.0


class Application:
    def __init__(self, calls: Calls, token: str) -> None:
        self._calls = calls
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if not hmac.compare_digest(headers.get(b"x-token", b""), self._token):
            await _send_whole(send, 403, b"{}", {})
            return
        body = await _read(receive)
        asked = Asked.of(scope["path"], json.loads(headers[b"x-call"]), json.loads(body))
        work = asyncio.ensure_future(self._answer(asked, send))
        gone = asyncio.ensure_future(receive())
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, gone):
            task.cancel()
        await asyncio.wait({work, gone}, timeout=_CANCELLED_SECONDS)

    async def _answer(self, asked: Asked, send: Send) -> None:
        try:
            answered = await self._calls.ask(asked)
            if not asked.is_streamed:
                await _send_whole(send, 200, json_of(answered, asked), {})
                return
            events = aiter(answered)
            first = event_of(await anext(events), asked)
        except Exception as error:  # noqa: BLE001 - whatever LiteLLM raises is an answer
            failure = failure_of(error, asked.provider)
            await _send_whole(send, failure.status, failure.body, failure.headers)
            return
        await _send_stream(send, first, events, asked)


async def _send_stream(send: Send, first: bytes, events: AsyncIterator[Any], asked: Asked) -> None:
    await send(_start(200, "text/event-stream", {}))
    await send({"type": "http.response.body", "body": first, "more_body": True})
    try:
        async for item in events:
            await send({"type": "http.response.body", "body": event_of(item, asked), "more_body": True})
        last = b"" if asked.names_events else DONE
    except Exception as error:  # noqa: BLE001 - as above
        last = _error_event(failure_of(error, asked.provider), asked)
    await send({"type": "http.response.body", "body": last})


def _error_event(failure: Failure, asked: Asked) -> bytes:
    if asked.names_events:
        told = {
            "type": "error",
            "sequence_number": 0,
            **{k: v for k, v in failure.object.items() if k != "type"},
        }
        return b"event: error\ndata: " + json.dumps(told).encode() + b"\n\n"
    return b"data: " + failure.body + b"\n\n"


async def _read(receive: Receive) -> bytes:
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _start(status: int, kind: str, headers: dict[str, str]) -> dict[str, Any]:
    pairs = [
        (b"content-type", kind.encode()),
        *((k.encode(), v.encode("latin-1")) for k, v in headers.items()),
    ]
    return {"type": "http.response.start", "status": status, "headers": pairs}


async def _send_whole(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    await send(_start(status, "application/json", {**headers, "content-length": str(len(body))}))
    await send({"type": "http.response.body", "body": body})
