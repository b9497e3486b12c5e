"""An OpenAI-like and an Anthropic-like provider on a loopback port, with faults on demand: what LiteLLM speaks to in tests.

The shapes are those of the providers' API references. It answers "Four." and remembers what it was asked, headers included.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes import anthropic_events, openai_events
from tests.fakes.thread_server import ThreadServer


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class FakeProvider:
    """`error`: (status, headers, body) of every answer from now on. `break_after`: the stream ends after so many events."""

    error: tuple[int, dict[str, str], dict[str, Any]] | None = None
    break_after: int | None = None
    error_event: dict[str, Any] | None = None  # sent where the stream would end
    breaks_cleanly: bool = False  # the connection ends well, the answer does not
    finish_reason: str = "stop"  # of OpenAI's shapes
    event_seconds: float = 0.0
    hangs: bool = False
    seen: list[Seen] = field(default_factory=list)
    num_aborted: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def forget(self) -> None:
        self.error = self.break_after = self.error_event = None
        self.breaks_cleanly = self.hangs = False
        self.finish_reason = "stop"
        self.event_seconds, self.num_aborted = 0.0, 0
        self.seen.clear()

    def start(self) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{path:.*}", self._answer)
        self._server = ThreadServer("fake-provider", app, self.port, aborts=False)
        self._server.start()
        self.port = self._server.port

    def stop(self) -> None:
        self._server.stop()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.seen.append(Seen(request.path, dict(request.headers), body))
        body = {**body, "finish_reason": self.finish_reason}
        try:
            if self.hangs:
                await asyncio.sleep(60)
            if self.error is not None:
                status, headers, told = self.error
                return web.json_response(told, status=status, headers=headers)
            shapes = anthropic_events if request.path.endswith("/messages") else openai_events
            if not body.get("stream"):
                return web.json_response(shapes.whole(request.path, body))
            return await self._stream(request, shapes.events(request.path, body))
        except (asyncio.CancelledError, ConnectionResetError):
            self.num_aborted += 1
            raise

    async def _stream(self, request: web.Request, events: list[tuple[str | None, Any]]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for name, data in events[: self.break_after]:
            await response.write(_framed(name, data))
            await asyncio.sleep(self.event_seconds)
        if self.break_after is not None:
            if self.breaks_cleanly:
                return response
            if self.error_event is None:
                assert request.transport is not None
                request.transport.abort()
            else:
                await response.write(_framed("error", self.error_event))
        return response


def _framed(name: str | None, data: Any) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


@contextmanager
def running_fake_provider() -> Iterator[FakeProvider]:
    fake = FakeProvider()
    fake.start()
    try:
        yield fake
    finally:
        fake.stop()
