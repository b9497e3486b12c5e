"""The ASGI application: its parts are built once, here, and every call goes one of two ways.

The data plane is answered by hand-written ASGI; everything else by FastAPI. No middleware stands before either.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

import structlog
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from ledger.bulk import use_array_text
from ledger.database import async_engine, sync_engine
from ledger.spool import Spool
from proxy.body import ClientGoneError, read_headers
from proxy.errors import ProxyError, send_error
from proxy.follow import Follower, first_policy
from proxy.live import LivePolicies
from proxy.management.nudge import Nudge
from proxy.management.routes import create_management, unknown_route
from proxy.metrics import Metrics
from proxy.parts import Parts
from proxy.paths import place_of
from proxy.recorder import Recorder
from proxy.settings import ProxySettings
from proxy.surface.answer import ENDPOINT, answer_chat
from proxy.upstream.replicas import Replicas
from proxy.upstream.vllm import VllmClient
from proxy.writer import Writer

log = structlog.get_logger()
_RESTART_SECONDS = 1.0


def create_app(settings: ProxySettings) -> "Application":
    return Application(settings)


class Application:
    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._parts: Parts
        self._management: FastAPI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def tracked(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._route(scope, receive, tracked)
        except ClientGoneError:
            pass
        except ProxyError as error:
            await send_error(send, error)
        except Exception:
            log.exception("request_broken", path=scope["path"])
            if has_started:
                raise
            await send_error(send, ProxyError("The proxy failed; the request was fine."))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = place_of(scope["raw_path"])
        if place.route != ENDPOINT:
            read_headers(scope["headers"], self._settings)  # for its limit
            inner = {
                **scope,
                "asked_path": scope["path"],
                "path": place.route,
                "raw_path": place.route.encode(),
                "root_path": "",
            }
            await self._management(inner, receive, send)
        elif scope["method"] != "POST":
            raise unknown_route(scope["method"], place.route, 405)
        else:
            await answer_chat(self._parts, scope, receive, send, place.session_id)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                running = await stack.enter_async_context(running_parts(self._settings))
            except Exception as error:  # noqa: BLE001 - the server prints the sentence and stops
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            self._parts, self._management = running
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


@asynccontextmanager
async def running_parts(settings: ProxySettings) -> AsyncIterator[tuple[Parts, FastAPI]]:
    """Everything that lives as long as the process; taken down in reverse order, records first made durable."""
    url = settings.database_url.get_secret_value()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        engine = async_engine(url)
        stack.push_async_callback(engine.dispose)
        policy = await first_policy(engine, settings)
        vllm = await stack.enter_async_context(VllmClient(settings))
        replicas = Replicas(settings.replica_urls, vllm, settings.adapters, metrics)
        live = LivePolicies(policy)
        replicas.want(live.targets())
        spool = Spool.open(settings.spool)
        stack.callback(spool.close)
        writer_engine = sync_engine(url, pool_size=1)
        use_array_text(writer_engine)
        stack.callback(writer_engine.dispose)
        writer = Writer(spool, settings.spool, writer_engine, metrics, settings.adopt_seconds)
        stack.push_async_callback(asyncio.to_thread, writer.stop, settings.shutdown_seconds)
        writer.start()
        recorder = Recorder(spool, metrics, writer.wake)
        stack.push_async_callback(recorder.drain)
        redis_url = settings.redis_url.get_secret_value() if settings.redis_url else None
        nudge = Nudge(redis_url, metrics)
        stack.push_async_callback(nudge.drain)
        follower = Follower(engine, live, replicas, metrics, settings.base_model)
        for work in (partial(replicas.watch, settings.watch_seconds), partial(follower.run, settings)):
            stack.push_async_callback(_cancelled, asyncio.create_task(_kept_running(work)))
        parts = Parts(settings, live, replicas, vllm, recorder, metrics)
        yield parts, create_management(parts, engine, nudge)


async def _kept_running(work: Callable[[], Awaitable[None]]) -> None:
    """A fault in background work is logged, and the work begins again."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("background_work_broken")
            await asyncio.sleep(_RESTART_SECONDS)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
