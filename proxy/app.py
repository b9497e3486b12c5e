"""The ASGI application: its parts are built once, here, and every call goes one of two ways.

The data plane is answered by hand-written ASGI; everything else by FastAPI. No middleware stands before either, unless
browsers of other origins may call.
"""

import asyncio
from contextlib import AsyncExitStack, suppress

import structlog
from fastapi import FastAPI
from starlette import types
from starlette.types import ASGIApp, Receive, Send

from ledger.identifiers import new_call_id
from ledger.vocabulary import Scope
from proxy.access.caller import Caller
from proxy.access.keys import refuse_key_in_url
from proxy.body import ClientGoneError, check_host, read_headers, usable_request_id
from proxy.cross_origin import answering_origins
from proxy.errors import ProxyError, ShuttingDownError, openai_envelope
from proxy.json_reply import send_error
from proxy.management.options import send_allowed
from proxy.management.routes import unknown_route
from proxy.parts import Parts
from proxy.paths import UNGUARDED, Place, place_of
from proxy.process import rest_garbage_collection, running_parts
from proxy.settings import ProxySettings
from proxy.start import stopped_by_signals
from proxy.surface.answer import ENDPOINTS, answer
from proxy.surface.endpoint import Endpoint

log = structlog.get_logger()


def create_app(settings: ProxySettings) -> ASGIApp:
    return answering_origins(Application(settings), settings)


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
        except asyncio.CancelledError:  # by nobody but a server that shuts down and waits no longer
            log.warning("request_cut_off", path=place.route)
            with suppress(RuntimeError, asyncio.CancelledError):  # its reply began, or the time is over
                await send_error(send, ShuttingDownError(retry_after=1), [_request_id_of(scope)], envelope)
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
                with stopped_by_signals():
                    running = await stack.enter_async_context(running_parts(self._settings))
            except Exception as error:  # noqa: BLE001 - the server prints the sentence and stops
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            self._parts, self._management = running
            rest_garbage_collection()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _request_id_of(scope: types.Scope) -> tuple[bytes, bytes]:
    """A refusal has its id too: the caller's, or a new one."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return b"x-request-id", (usable_request_id(headers) or new_call_id().hex).encode("ascii")
