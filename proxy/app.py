"""The ASGI application: its parts are built once, here, and every call goes one of two ways.

The data plane is answered by hand-written ASGI; everything else by FastAPI. No middleware stands before either.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import structlog
from fastapi import FastAPI
from starlette import types
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Send

from ledger.database import async_engine, sync_engine
from ledger.identifiers import new_call_id
from ledger.spool import Spool
from ledger.vocabulary import Scope
from proxy.access.caller import Caller
from proxy.access.concurrency import Concurrency
from proxy.access.keys import Keys, refuse_key_in_url, require_key
from proxy.body import ClientGoneError, check_host, read_headers, usable_request_id
from proxy.conversation.conversations import Conversations
from proxy.conversation.valkey import valkey_at
from proxy.errors import ProxyError, openai_envelope, send_error
from proxy.external.dispatch import External
from proxy.follow import Follower, first_look
from proxy.live import LivePolicies
from proxy.management.nudge import Nudge
from proxy.management.options import send_allowed
from proxy.management.routes import create_management, unknown_route
from proxy.metrics import Metrics
from proxy.open_bodies import OpenBodies
from proxy.parts import Parts
from proxy.paths import UNGUARDED, Place, place_of
from proxy.recorder import Recorder
from proxy.settings import ProxySettings
from proxy.surface.answer import ENDPOINTS, answer
from proxy.surface.endpoint import Endpoint
from proxy.upstream.choice import Leeway
from proxy.upstream.replicas import Replicas
from proxy.upstream.vllm import VllmClient
from proxy.writer import Writer

log = structlog.get_logger()
_RESTART_SECONDS = 1.0
_GARBAGE_THRESHOLD = 50_000  # objects


def create_app(settings: ProxySettings) -> ASGIApp:
    """Browsers of other origins are answered only if the operator names them."""
    app = Application(settings)
    return CORSMiddleware(app, **cors_options(settings)) if settings.cors_origins else app


def cors_options(settings: ProxySettings) -> dict[str, Any]:
    origins = [origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()]
    return {
        "allow_origins": origins,
        "allow_methods": ["GET", "POST", "DELETE"],
        "allow_headers": ["*"],
        "expose_headers": ["x-trajectory-id", "x-request-id", "x-model-version", "x-captured", "retry-after"],
        "max_age": 3600,
    }


class Application:
    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._parts: Parts
        self._management: FastAPI

    async def __call__(self, scope: types.Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: types.Scope, receive: Receive, send: Send) -> None:
        place = place_of(scope["raw_path"])
        endpoint = ENDPOINTS.get(place.route)
        envelope = endpoint.envelope if endpoint else openai_envelope
        try:
            await self._route(scope, receive, send, place, endpoint)
        except ClientGoneError:
            pass
        except ProxyError as error:
            await send_error(send, error, [_request_id_of(scope)], envelope)
        except Exception:
            log.exception("request_broken", path=place.route)
            await send_error(send, ProxyError("The proxy failed; the request was fine."), envelope=envelope)

    async def _route(
        self, scope: types.Scope, receive: Receive, send: Send, place: Place, endpoint: Endpoint | None
    ) -> None:
        refuse_key_in_url(scope["raw_path"], scope["query_string"])
        headers = read_headers(scope["headers"], self._settings)
        if scope["method"] == "OPTIONS":
            check_host(headers)
            await send_allowed(send, self._management, place.route, ["POST"] if endpoint else [])
            return
        caller = None if place.route in UNGUARDED else self._parts.keys.authenticate(headers)
        check_host(headers)
        if endpoint is None or caller is None:
            await self._manage(scope, receive, send, place, caller)
        elif scope["method"] != "POST":
            raise unknown_route(scope["method"], place.route, 405)
        else:
            with self._parts.concurrency.slot(caller.require(Scope.INFER).key_id):
                await answer(self._parts, endpoint, scope, receive, send, place.session_id, headers, caller)

    async def _manage(
        self, scope: types.Scope, receive: Receive, send: Send, place: Place, caller: Caller | None
    ) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]  # the server leaves out the body
        where = {"method": method, "path": place.route, "raw_path": place.route.encode(), "root_path": ""}
        try:
            await self._management(
                {**scope, **where, "asked_path": scope["path"], "caller": caller}, receive, send
            )
        except ClientGoneError:
            pass  # before its body was complete
        except Exception:  # answered already: Starlette raises it once more for whoever logs
            log.exception("request_broken", path=place.route)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                running = await stack.enter_async_context(running_parts(self._settings))
            except Exception as error:  # noqa: BLE001 - the server prints the sentence and stops
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            self._parts, self._management = running
            _rest_garbage_collection()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _request_id_of(scope: types.Scope) -> tuple[bytes, bytes]:
    """A refusal has its id too: the caller's, or a new one."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return b"x-request-id", (usable_request_id(headers) or new_call_id().hex).encode("ascii")


@asynccontextmanager
async def running_parts(settings: ProxySettings) -> AsyncIterator[tuple[Parts, FastAPI]]:
    """Everything that lives as long as the process; taken down in reverse order, records first made durable."""
    url = settings.database_url.get_secret_value()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        engine = async_engine(url)
        stack.push_async_callback(engine.dispose)
        seen = await first_look(engine, settings)
        require_key(seen.keys, settings)
        vllm = await stack.enter_async_context(VllmClient(settings))
        external = External(settings, metrics)
        stack.push_async_callback(external.close)
        leeway = Leeway(settings.affinity_slack, settings.affinity_factor)
        replicas = Replicas(settings.replica_urls, vllm, settings.adapters, metrics, leeway)
        keys, live = Keys(seen.keys), LivePolicies(settings.policy)
        for policy in seen.policies:
            live.learn(policy)
            if policy.base_model == settings.base_model:  # another base is another server's
                live.switch(policy)
        replicas.want(live.targets())
        spool = Spool.open(settings.spool)
        stack.callback(spool.close)
        writer_engine = sync_engine(url, pool_size=1)
        stack.callback(writer_engine.dispose)
        writer = Writer(spool, settings.spool, writer_engine, metrics, settings.adopt_seconds)
        stack.push_async_callback(asyncio.to_thread, writer.stop, settings.shutdown_seconds)
        writer.start()
        recorder = Recorder(spool, metrics, writer.wake)
        stack.push_async_callback(recorder.drain)
        redis_url = settings.redis_url.get_secret_value() if settings.redis_url else None
        nudge = Nudge(redis_url, metrics)
        stack.push_async_callback(nudge.drain)
        follower_engine = async_engine(url, pool_size=1)
        stack.push_async_callback(follower_engine.dispose)
        follower = Follower(follower_engine, keys, live, replicas, metrics, settings)
        valkey = valkey_at(redis_url, settings.valkey_wait_seconds, metrics.valkey_failures.inc)
        works: list[Callable[[], Awaitable[None]]] = [
            partial(replicas.watch, settings.watch_seconds),
            follower.run,
        ]
        for work in [*works, valkey.run] if valkey else works:
            stack.push_async_callback(_cancelled, asyncio.create_task(_kept_running(work)))
        open_bodies = OpenBodies(settings.max_open_bytes)
        concurrency = Concurrency(settings.max_concurrent_per_key)
        conversations = Conversations(settings, valkey, metrics)
        parts = Parts(
            settings,
            keys,
            concurrency,
            live,
            replicas,
            external,
            vllm,
            recorder,
            conversations,
            metrics,
            open_bodies,
        )
        yield parts, create_management(parts, engine, nudge)


def _rest_garbage_collection() -> None:
    """What was loaded at the start is never garbage, and calls leave no cycles: looking through both again and again
    took a tenth of a call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 20, 50)


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
