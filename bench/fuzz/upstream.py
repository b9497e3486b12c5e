"""The mock vLLM of the fuzzer: answers every route of the data plane, whatever it is asked, and remembers whom.

`python -m bench.fuzz.upstream PORT`. GET /bench/seen lists the ids of all calls that reached it: each must be a row.
"""

import asyncio
import json
import re
import sys
from dataclasses import dataclass, field
from typing import Any

import uvloop

from bench.gateway.replies import DONE, Asked, dumps, events, whole
from bench.gateway.upstream import BASE_MODEL, Connection, Mock, Stream, asked_of, response, rest

_REQUEST_ID = re.compile(rb"\r\nx-request-id:\s*([^\r]+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_MAX_TOKENS = 24
_UNRECORDED = ("/v1/embeddings", "/v1/messages/count_tokens")


@dataclass
class FuzzMock(Mock):
    seen: list[str] = field(default_factory=list)


class FuzzConnection(Connection):
    _mock: FuzzMock

    def _answer(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1].decode("latin-1")
        if path == "/bench/seen":
            self._transport.write(response(json.dumps(self._mock.seen).encode()))
        elif path == "/v1/chat/completions" or path in _CANNED:
            self._reply(path, head, body)
        else:
            self._transport.write(rest(self._mock, head, body))

    def _reply(self, path: str, head: bytes, body: bytes) -> None:
        name = _REQUEST_ID.search(head)
        if name and path not in _UNRECORDED:
            self._mock.seen.append(name[1].decode("latin-1"))
        is_streamed = path not in _UNRECORDED and _STREAM.search(body) is not None
        reply_id = b"chatcmpl-" + (name[1] if name else b"x")
        if path == "/v1/chat/completions":
            asked = _few(asked_of(body))
            made = events(asked, reply_id, BASE_MODEL.encode()) if is_streamed else []
            text = whole(asked, reply_id, BASE_MODEL.encode())
        else:
            body_of, events_of = _CANNED[path]
            made, text = (_framed(events_of) if is_streamed else []), dumps(body_of).encode()
        if made:
            self._stream = Stream(self._mock, self._transport, made)
        else:
            self._transport.write(response(text))


def _few(asked: Asked) -> Asked:
    return Asked(**{**vars(asked), "num_tokens": min(asked.num_tokens, _MAX_TOKENS)})


def _framed(items: list[dict[str, Any]]) -> list[bytes]:
    """Events whose data has a type are named by it; the others end with [DONE]."""
    if "type" not in items[0]:
        return [*(f"data: {dumps(item)}\n\n".encode() for item in items), DONE]
    return [f"event: {item['type']}\ndata: {dumps(item)}\n\n".encode() for item in items]


_LOGPROB = {"token": " a", "logprob": -0.5, "bytes": [32, 97], "top_logprobs": []}
_TEXT_LOGPROBS = {
    "text_offset": [0],
    "token_logprobs": [-0.5],
    "tokens": [" a"],
    "top_logprobs": [{" a": -0.5}],
}
_USAGE = {"prompt_tokens": 2, "total_tokens": 3, "completion_tokens": 1}
_COMPLETION = {"id": "cmpl-x", "object": "text_completion", "created": 1796016643, "model": BASE_MODEL}
_CHOICE: dict[str, Any] = {"index": 0, "text": " a", "logprobs": _TEXT_LOGPROBS, "finish_reason": "length", "stop_reason": None,
           "token_ids": [5], "prompt_logprobs": None, "prompt_token_ids": [1, 2]}  # fmt: skip
_PART = {"type": "output_text", "text": " a", "annotations": [], "logprobs": [_LOGPROB]}
_ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [_PART]}
_RESPONSE = {
    "id": "resp_x",
    "object": "response",
    "created_at": 1796016643,
    "model": BASE_MODEL,
    "status": "completed",
    "output": [_ITEM],
    "usage": {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3},
    "input_messages": [{"type": "raw_message_tokens", "message": "x", "tokens": [1, 2]}],
    "output_messages": [{"type": "raw_message_tokens", "message": " a", "tokens": [5]}],
}
_BEGUN = {**_RESPONSE, "status": "in_progress", "output": [], "input_messages": None, "output_messages": None}
_RESPONSE_EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "sequence_number": 0, "response": _BEGUN},
    {"type": "response.output_text.delta", "sequence_number": 1, "delta": " a", "logprobs": [_LOGPROB]},
    {"type": "response.completed", "sequence_number": 2, "response": _RESPONSE},
]
_MESSAGE = {
    "id": "msg_x",
    "type": "message",
    "role": "assistant",
    "model": BASE_MODEL,
    "content": [{"type": "text", "text": " a"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 2, "output_tokens": 1},
}
_MESSAGE_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " a"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
_EMBEDDING = {
    "id": "embd-x",
    "object": "list",
    "created": 1796016643,
    "model": BASE_MODEL,
    "data": [{"index": 0, "object": "embedding", "embedding": [0.25, -0.5]}],
    "usage": {"prompt_tokens": 2, "total_tokens": 2, "completion_tokens": 0},
}
_CANNED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "/v1/completions": (
        {**_COMPLETION, "choices": [_CHOICE], "usage": _USAGE},
        [{**_COMPLETION, "choices": [_CHOICE]}],
    ),
    "/v1/responses": (_RESPONSE, _RESPONSE_EVENTS),
    "/v1/messages": (_MESSAGE, _MESSAGE_EVENTS),
    "/v1/embeddings": (_EMBEDDING, [_EMBEDDING]),
    "/v1/messages/count_tokens": ({"input_tokens": 2}, [{"input_tokens": 2}]),
}


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    mock = FuzzMock(loop, event_seconds=0.01)
    server = await loop.create_server(lambda: FuzzConnection(mock), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
