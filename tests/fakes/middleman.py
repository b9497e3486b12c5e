"""What stands between a client and the proxy, and goes wrong on demand: it loses answers, or answers itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from tests.fakes.thread_server import ThreadServer
from tests.fakes.vllm import Seen

_HOP = {"transfer-encoding", "connection", "content-length", "content-encoding", "keep-alive"}


@dataclass
class OwnAnswer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Middleman:
    upstream: str
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    num_lost: int = 0  # so many of the next answers never arrive, though the upstream gave them
    own_answers: list[OwnAnswer] = field(default_factory=list)  # given first, without asking the upstream

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._relay)
        self._server = ThreadServer("middleman", app, self.port, aborts=True)
        self._server.start()
        self.port = self._server.port

    def stop(self) -> None:
        self._server.stop()

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.seen.append(Seen(request.raw_path, {k.lower(): v for k, v in request.headers.items()}, raw))
        if self.own_answers:
            own = self.own_answers.pop(0)
            return web.Response(status=own.status, body=own.body, headers=own.headers)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in {*_HOP, "host"}}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, f"{self.upstream}{request.raw_path}", data=raw, headers=headers
            ) as reply,
        ):
            body = await reply.read()
        if self.num_lost:
            self.num_lost -= 1
            assert request.transport is not None
            request.transport.abort()
        kept = {k: v for k, v in reply.headers.items() if k.lower() not in _HOP}
        return web.Response(status=reply.status, body=body, headers=kept)


@contextmanager
def running_middleman(upstream: str) -> Iterator[Middleman]:
    middleman = Middleman(upstream)
    middleman.start()
    try:
        yield middleman
    finally:
        middleman.stop()
