"""An operator's scorer on a loopback port, with faults on demand; it remembers what it was asked, headers included."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.thread_server import ThreadServer


@dataclass
class FakeScorer:
    """`answers`: (status, text), one after the other; the last one stays."""

    answers: list[tuple[int, str]] = field(
        default_factory=lambda: [(200, '{"reward": 0.5, "comment": "half"}')]
    )
    drip_seconds: float = 0.0  # between the bytes of an answer
    seen: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/score"

    def start(self) -> None:
        app = web.Application()
        app.router.add_post("/score", self._answer)
        self.server = ThreadServer("fake-scorer", app, 0, aborts=False)
        self.server.start()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(await request.json())
        self.headers.append(dict(request.headers))
        status, text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for byte in text.encode() if self.drip_seconds else ():
            await response.write(bytes([byte]))
            await asyncio.sleep(self.drip_seconds)
        if not self.drip_seconds:
            await response.write(text.encode())
        return response


@contextmanager
def running_fake_scorer() -> Iterator[FakeScorer]:
    fake = FakeScorer()
    fake.start()
    try:
        yield fake
    finally:
        fake.server.stop()
