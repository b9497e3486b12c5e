"""A vLLM that generates nothing: the shapes of 0.32 as recorded, on a real loopback port, with faults on demand.

Its "tokens" are ` w<id>`; ids and logprobs follow from (model, prompt, seed, choice, position), so a call repeated
gives the same answer and another adapter gives another. tests/loop/test_contract.py holds it against the real one.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import web

from tests.corpus.recording import Recorded
from tests.fakes import vllm_chat, vllm_completions, vllm_embeddings, vllm_messages, vllm_responses
from tests.fakes.thread_server import ThreadServer
from tests.fakes.vllm_errors import FakeError, model_entry, unknown_model
from tests.fakes.vllm_replay import matching, replay


@dataclass
class Faults:
    """What goes wrong from now on; change it at any time."""

    die_after_events: int | None = None  # the connection breaks after so many stream events
    hang_before_reply: bool = False
    event_seconds: float = 0.0  # between two stream events
    reply_seconds: float = 0.0  # before a whole reply
    is_unwell: bool = False  # /health answers 503
    health_seconds: float = 0.0  # before /health answers
    answer_as: str | None = None  # `model` in replies
    refuse_loading: bool = False
    loading_seconds: float = 0.0  # before an adapter is loaded, or refused
    loading_status: int = 404  # of a refusal
    status: int | None = None  # every call answers this, with `raw_body`
    raw_body: bytes | None = None  # instead of a generated reply
    raw_chunks: list[bytes] | None = None  # instead of a generated stream
    content_encoding: str | None = None  # gzip, deflate
    content_type: str = "application/json"
    headers: dict[str, str] | None = None  # of a refusal by `status`
    num_refusals: int | None = None  # only so many calls are answered with `status`
    chunk_bytes: int | None = None  # streams are cut anew into pieces of this size


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeVllm:
    base_model: str = "base-model"
    port: int = 0
    faults: Faults = field(default_factory=Faults)
    adapters: dict[str, str] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    num_aborted: int = 0
    num_chunks_sent: int = 0
    load: tuple[int, int] | None = (0, 0)  # running and waiting, as /metrics says; None: no such route
    on_chat: Callable[[], object] | None = None  # happens when a chat was asked for, before its answer
    known_paths_only: bool = False  # adapters load only from paths that exist
    serves_embeddings: bool = False  # a server that generates has no such route
    replays: list[Recorded] = field(default_factory=list)  # answered as the real server answered

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def chats(self) -> list[Seen]:
        return self.calls("/v1/chat/completions")

    def calls(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]

    def start(self) -> None:
        self._server = ThreadServer("fake-vllm", self._app(), self.port, aborts=True)
        self._server.start()
        self.port = self._server.port

    def stop(self) -> None:
        """As a kill: connections break, adapters are forgotten. start() serves the same port again."""
        if self._server.is_running:
            self._server.stop()
            self.adapters.clear()

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30, middlewares=[self._errors])
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/load_lora_adapter", self._load)
        app.router.add_post("/v1/unload_lora_adapter", self._unload)
        app.router.add_post("/v1/chat/completions", partial(vllm_chat.answer, self))
        app.router.add_post("/v1/completions", partial(vllm_completions.answer, self))
        app.router.add_post("/v1/responses", partial(vllm_responses.answer, self))
        app.router.add_post("/v1/messages", partial(vllm_messages.answer, self))
        app.router.add_post("/v1/messages/count_tokens", partial(vllm_messages.count_tokens, self))
        app.router.add_post("/v1/embeddings", partial(vllm_embeddings.answer, self))
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        """As vLLM 0.32 writes it, of what it counts the two that say how busy it is."""
        if self.load is None:
            raise web.HTTPNotFound
        label = f'{{engine="0",model_name="{self.base_model}"}}'
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
        lines = [
            line
            for name, value in zip(names, self.load, strict=True)
            for line in (f"# HELP {name} Text.", f"# TYPE {name} gauge", f"{name}{label} {float(value)}")
        ]
        by_reason = (
            f'vllm:num_requests_waiting_by_reason{{engine="0",reason="capacity"}} {float(self.load[1])}'
        )
        return web.Response(text="\n".join([*lines, by_reason, ""]))

    @web.middleware
    async def _errors(self, request: web.Request, handler: Any) -> web.StreamResponse:
        raw = await request.read()
        self.seen.append(Seen(request.path, dict(request.headers), raw))
        if self.on_chat is not None and request.path == "/v1/chat/completions":
            self.on_chat()
        recorded = matching(self.replays, request, raw)
        try:
            if recorded is not None:
                return await replay(self, request, raw, recorded)
            response: web.StreamResponse = await handler(request)
        except FakeError as error:
            return error.response()
        except web.HTTPException as error:
            return web.json_response({"detail": error.reason}, status=error.status)
        except asyncio.CancelledError:
            self.num_aborted += 1
            raise
        return response

    def checked_model(self, body: dict[str, Any]) -> str:
        name = body.get("model") or self.base_model
        if name != self.base_model and name not in self.adapters:
            raise unknown_model(name, self.base_model)
        return str(name)

    async def _health(self, _: web.Request) -> web.Response:
        await asyncio.sleep(self.faults.health_seconds)
        return web.Response(status=503 if self.faults.is_unwell else 200)

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def _models(self, _: web.Request) -> web.Response:
        entries = [model_entry(self.base_model, self.base_model, None)]
        entries += [model_entry(name, path, self.base_model) for name, path in self.adapters.items()]
        return web.json_response({"object": "list", "data": entries})

    async def _load(self, request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(self.faults.loading_seconds)
        name, path = body["lora_name"], body["lora_path"]
        if name in self.adapters and not body.get("load_inplace"):
            text = f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, "
            raise FakeError(400, f"{text}set 'load_inplace' to True.", "InvalidUserInput")
        if self.faults.refuse_loading or (self.known_paths_only and not _exists(path)):
            missing = f"No adapter found for {path}" if self.faults.loading_status == 404 else "out of memory"
            raise FakeError(
                self.faults.loading_status, f"Loading lora {name} failed: {missing}", "NotFoundError"
            )
        self.adapters[name] = path
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        if self.adapters.pop(name, None) is None:
            raise FakeError(404, f"The lora adapter '{name}' cannot be found.", "NotFoundError")
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")


def _exists(path: str) -> bool:
    from pathlib import Path

    return Path(path).is_dir()


@contextmanager
def running_fake_vllm(base_model: str = "base-model") -> Iterator[FakeVllm]:
    fake = FakeVllm(base_model)
    fake.start()
    try:
        yield fake
    finally:
        fake.stop()
