"""How the fake sends a stream: chunk by chunk, with the faults that were asked for."""

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm

EVENT_STREAM = "text/event-stream; charset=utf-8"


def dumps(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def data_frames(events: Iterable[str]) -> list[bytes]:
    """As the routes of OpenAI's completions end: with [DONE]."""
    return [f"data: {event}\n\n".encode() for event in [*events, "[DONE]"]]


def named_frames(events: Iterable[dict[str, Any]]) -> list[bytes]:
    """As responses and messages are streamed: each event with its name, and no [DONE]."""
    return [f"event: {event['type']}\ndata: {dumps(event)}\n\n".encode() for event in events]


def recut(chunks: list[bytes], size: int | None) -> list[bytes]:
    """The same bytes in pieces of `size`, blind to events and characters."""
    if size is None:
        return chunks
    whole = b"".join(chunks)
    return [whole[i : i + size] for i in range(0, len(whole), size)]


async def send_stream(
    fake: "FakeVllm", request: web.Request, chunks: list[bytes], *, is_broken: bool = False
) -> web.StreamResponse:
    """A broken one ends as a connection that is cut."""
    faults = fake.faults
    if faults.raw_chunks is not None:
        chunks = faults.raw_chunks
    response = web.StreamResponse(headers={"content-type": EVENT_STREAM})
    await response.prepare(request)
    for i, chunk in enumerate(recut(chunks, faults.chunk_bytes)):
        if faults.die_after_events is not None and i >= faults.die_after_events:
            return _cut(request, response)
        await response.write(chunk)
        fake.num_chunks_sent += 1
        await asyncio.sleep(faults.event_seconds)
    if is_broken:
        return _cut(request, response)
    await response.write_eof()
    return response


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return response


async def send_whole(fake: "FakeVllm", body: Any) -> web.Response:
    faults = fake.faults
    await asyncio.sleep(faults.reply_seconds)
    response = web.Response(body=faults.raw_body or dumps(body).encode(), content_type=faults.content_type)
    if faults.content_encoding:
        response.enable_compression(web.ContentCoding(faults.content_encoding))
    return response


async def fault_before_reply(fake: "FakeVllm") -> web.Response | None:
    faults = fake.faults
    if faults.hang_before_reply:
        await asyncio.sleep(3600)
    if faults.status is None:
        return None
    refusal = web.Response(
        status=faults.status, body=faults.raw_body, content_type=faults.content_type, headers=faults.headers
    )
    if faults.num_refusals is not None:
        faults.num_refusals -= 1
        if faults.num_refusals == 0:
            faults.status = faults.raw_body = faults.headers = faults.num_refusals = None
    return refusal
