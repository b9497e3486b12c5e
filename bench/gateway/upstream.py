"""The mock vLLM: a process of its own that costs as little as Python can, so that what is measured is the gateway.

`python -m bench.gateway.upstream PORT`. Bench's own routes: POST /bench/pace sets how fast it answers,
GET /bench/counts tells what it saw. Invariant: one write for each event of a stream, as vLLM's server does.
"""

import asyncio
import json
import re
import sys
from dataclasses import dataclass, field
from typing import Any, cast

import uvloop

from bench.gateway.replies import BYTES_PER_TOKEN, Asked, dumps, events, whole
from bench.gateway.wire import LAST_CHUNK, body_length, chunk, head_end, is_chunked

BASE_MODEL = "base-model"
_REQUEST_ID = re.compile(rb"\r\nx-request-id:\s*([^\r]+)", re.IGNORECASE)
_MODEL = re.compile(rb'"model"\s*:\s*"([^"]*)"')
_MAX_TOKENS = re.compile(rb'"max_(?:completion_)?tokens"\s*:\s*(\d+)')
_FLAGS = {
    name: re.compile(rb'"%b"\s*:\s*true' % name.encode())
    for name in ("stream", "return_token_ids", "logprobs", "include_usage")
}
_CLOCK = b"date: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    + _CLOCK
    + b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


@dataclass
class Mock:
    """What all connections share."""

    loop: asyncio.AbstractEventLoop
    event_seconds: float = 0.0  # between the events of a stream; 0 = as fast as they are written
    reply_seconds: float = 0.0  # before a whole reply, and before a stream's first event
    adapters: list[str] = field(default_factory=list)
    num_replies: int = 0
    num_streams: int = 0
    num_aborted: int = 0
    num_open_streams: int = 0
    num_connections: int = 0

    def counts(self) -> dict[str, int]:
        return {key: value for key, value in vars(self).items() if key.startswith("num_")}


def asked_of(body: bytes) -> Asked:
    found = _MAX_TOKENS.search(body)
    has = {name: pattern.search(body) is not None for name, pattern in _FLAGS.items()}
    return Asked(
        num_tokens=int(found[1]) if found else 16,
        num_prompt_tokens=max(
            1, len(body) // BYTES_PER_TOKEN // 16 * 16
        ),  # few lengths, so that few are prepared
        has_ids=has["return_token_ids"],
        has_logprobs=has["logprobs"],
        has_usage=has["include_usage"],
    )


def response(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\ncontent-type: {kind}\r\n"
    return head.encode() + _CLOCK + b"\r\n" + body


class Stream:
    """The events of one reply, each written when its time has come."""

    __slots__ = ("_at", "_events", "_mock", "_timer", "_write")

    def __init__(self, mock: Mock, transport: asyncio.Transport, made: list[bytes]) -> None:
        self._mock, self._write, self._events = mock, transport.write, iter(made)
        self._at = mock.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        mock.num_streams += 1
        mock.num_open_streams += 1
        transport.write(_STREAM_HEAD)
        self._write(chunk(next(self._events)))  # the role comes with the first token
        self._next()

    def _next(self) -> None:
        while (event := next(self._events, None)) is not None:
            self._write(chunk(event))
            if self._mock.event_seconds:
                self._at += self._mock.event_seconds
                self._timer = self._mock.loop.call_at(self._at, self._next)
                return
        self._write(LAST_CHUNK)
        self._mock.num_open_streams -= 1
        self._timer = None

    def abort(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._mock.num_aborted += 1
            self._mock.num_open_streams -= 1


class Connection(asyncio.Protocol):
    def __init__(self, mock: Mock) -> None:
        self._mock, self._buffer, self._needed = mock, bytearray(), 0
        self._stream: Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        self._mock.num_connections += 1

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._mock.num_connections -= 1
        if self._stream:
            self._stream.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= self._needed and (end := head_end(self._buffer)):
            head = bytes(self._buffer[:end])
            self._needed = end + body_length(head)
            if len(self._buffer) < self._needed:
                return
            body = bytes(self._buffer[end : self._needed])
            del self._buffer[: self._needed]
            self._needed = 0
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if is_chunked(head):
            self._transport.write(response(b"send a length", "411 Length Required"))
            self._transport.close()
        elif not head.startswith(b"POST /v1/chat/completions "):
            self._transport.write(rest(self._mock, head, body))
        elif self._mock.reply_seconds:
            self._mock.loop.call_later(self._mock.reply_seconds, self._chat, head, body)
        else:
            self._chat(head, body)

    def _chat(self, head: bytes, body: bytes) -> None:
        asked, model, name = asked_of(body), _MODEL.search(body), _REQUEST_ID.search(head)
        self._mock.num_replies += 1
        reply_id = b"chatcmpl-" + (name[1] if name else b"%016x" % self._mock.num_replies)
        answered = model[1] if model else BASE_MODEL.encode()
        if _FLAGS["stream"].search(body):
            self._stream = Stream(self._mock, self._transport, events(asked, reply_id, answered))
        else:
            self._transport.write(response(whole(asked, reply_id, answered)))


def rest(mock: Mock, head: bytes, body: bytes) -> bytes:
    """Everything but chat: what the proxy asks of a vLLM, and the bench of the mock."""
    path = head.split(b" ", 2)[1]
    if path == b"/health":
        return response(b"")
    if path == b"/v1/models":
        return response(dumps({"object": "list", "data": models(mock)}).encode())
    if path == b"/v1/load_lora_adapter":
        name = json.loads(body)["lora_name"]
        mock.adapters.append(name)
        text = f"Success: LoRA adapter '{name}' added successfully."
        return response(text.encode(), kind="text/plain; charset=utf-8")
    if path == b"/bench/pace":
        pace = json.loads(body)
        mock.event_seconds, mock.reply_seconds = pace["event_seconds"], pace["reply_seconds"]
    if path in {b"/bench/pace", b"/bench/counts"}:
        return response(json.dumps(mock.counts()).encode())
    return response(b'{"detail":"Not Found"}', "404 Not Found")


def models(mock: Mock) -> list[dict[str, Any]]:
    names = [(BASE_MODEL, None), *((name, BASE_MODEL) for name in mock.adapters)]
    shared = {"object": "model", "created": 1796016644, "owned_by": "vllm"}
    return [
        {"id": name, **shared, "root": name, "parent": parent, "max_model_len": None if parent else 65536}
        for name, parent in names
    ]


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    mock = Mock(loop)
    server = await loop.create_server(lambda: Connection(mock), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
