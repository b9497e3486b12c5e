"""One call, from its acceptance to its last byte. docs/decisions/0003-call-lifecycle.md draws its states.

Invariant (I4): the record is durable before the last byte leaves, and there is exactly one per accepted call.
"""

import asyncio
import json
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any

import structlog
from starlette.types import Scope, Send

from ledger.errors import SpoolError
from ledger.vocabulary import ExchangeStatus
from proxy.call_log import CallLog
from proxy.connection import Client, client_of
from proxy.errors import (
    CaptureRefusedError,
    ProxyError,
    ShuttingDownError,
    UpstreamBrokenError,
    UpstreamTimeoutError,
)
from proxy.json_reply import send_error, send_json
from proxy.parts import Parts
from proxy.reply.error import told_error
from proxy.reply.event_flow import EventFlow
from proxy.reply.reply import UNREADABLE, Reply, UnreadableReplyError
from proxy.surface.endpoint import Endpoint
from proxy.upstream.errors import SilentError, UpstreamError
from proxy.upstream.reply import UpstreamReply

log = structlog.get_logger()
_ERROR_STATUS = 400
_ERROR_STATUSES = range(400, 600)
_STATUSES = range(200, 600)
_TOO_LONG = (
    "The answer took longer than is allowed here: SLIPSTREAM_UPSTREAM_FIRST_TOKEN_SECONDS until the first token (or for a "
    "whole answer), SLIPSTREAM_CALL_SECONDS from there on."
)
_LAST_READ_SECONDS = 1.0
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


Dispatch = AbstractAsyncContextManager[UpstreamReply]


class Call:
    def __init__(
        self, parts: Parts, endpoint: Endpoint, reply: Reply, dispatch: Dispatch, call_log: CallLog
    ) -> None:
        self._parts = parts
        self._endpoint = endpoint
        self._reply = reply
        self._capture = reply.capture
        self._dispatch = dispatch
        self._log = call_log
        self._client: Client
        self._has_started = False  # the reply's headers are out

    async def run(self, scope: Scope, send: Send) -> None:
        """Answers, or stops as soon as the client is gone: vLLM aborts when its connection closes."""
        self._log.accept_soon()
        self._client = client = client_of(scope)
        self._parts.metrics.inflight.inc()
        try:
            with client.cancelling_when_gone():
                await self._answer(send)
        except asyncio.CancelledError:
            if not client.is_gone:
                await self._cut_off(send)
        finally:
            self._parts.metrics.inflight.dec()
            self._log.end_at_hang_up(has_started=self._has_started)

    async def _cut_off(self, send: Send) -> None:
        """The server shuts down and waits no longer. Whoever reads is told so, if there is time for it; one that is slow
        to read is not waited for.
        """
        log.warning("call_cut_off", call_id=str(self._log.record.call_id))
        with suppress(asyncio.CancelledError, SpoolError):
            if finishing := self._log.end_at_hang_up(has_started=self._has_started):
                await asyncio.shield(finishing)
            if self._client.is_writable:
                await self._tell(ShuttingDownError(retry_after=1), send)

    async def _answer(self, send: Send) -> None:
        try:
            if not self._parts.recorder.is_well:
                await self._log.accepted()  # before vLLM works for nothing
            async with (
                asyncio.timeout(self._parts.settings.upstream_first_token_seconds) as self._limit,
                self._dispatch as upstream,
            ):
                await self._relay(upstream, send)
        except ProxyError as error:
            await self._fail(error, send)
        except (TimeoutError, SilentError):
            await self._fail(UpstreamTimeoutError(_TOO_LONG), send)
        except (UpstreamError, UnreadableReplyError) as error:
            log.warning("upstream_broken", call_id=str(self._log.record.call_id), error=repr(error)[:200])
            await self._fail(UpstreamBrokenError(), send)
        except (
            Exception
        ):  # a fault of ours: the client gets an answer, the call its record, the log the trace
            log.exception("call_broken", call_id=str(self._log.record.call_id))
            await self._fail(ProxyError("The proxy failed; the request was fine."), send)

    async def _relay(self, upstream: UpstreamReply, send: Send) -> None:
        if upstream.status not in _STATUSES:
            raise UnreadableReplyError(f"status {upstream.status}")
        if upstream.status >= _ERROR_STATUS:
            await self._relay_error(upstream, send)
        elif upstream.content_type == "text/event-stream":
            await self._relay_stream(upstream, send)
        else:
            await self._relay_whole(upstream, send)

    async def _relay_whole(self, upstream: UpstreamReply, send: Send) -> None:
        raw = await upstream.read(self._parts.settings.max_reply_bytes)
        try:
            body = self._reply.whole(raw)
        except UNREADABLE as error:
            raise UnreadableReplyError(repr(error)) from error
        self._limit.reschedule(None)
        await self._log.end(ExchangeStatus.COMPLETED, upstream.status)
        await send_json(send, upstream.status, body, self._log.headers())

    async def _relay_error(self, upstream: UpstreamReply, send: Send) -> None:
        """An error object of vLLM's stays as it is; other shapes become the route's."""
        raw, self._capture.error = told_error(
            await upstream.read(self._parts.settings.max_reply_bytes),
            upstream.status,
            self._endpoint.path,
            self._endpoint.envelope,
        )
        await self._log.end(ExchangeStatus.FAILED, upstream.status)
        extra = [
            (name.encode(), upstream.headers[name].encode("latin-1"))
            for name in ("retry-after", "x-should-retry")
            if name in upstream.headers
        ]
        await send_json(send, upstream.status, raw, [*self._log.headers(), *extra])

    async def _relay_stream(self, upstream: UpstreamReply, send: Send) -> None:
        flow = EventFlow(self._reply, self._count_dropped)
        while not flow.is_over and (chunk := await upstream.next_chunk()):
            if body := self._seen(flow, chunk):
                await self._send(send, upstream.status, body)
                await upstream.pour(partial(self._hand_over, flow))
        if body := flow.rest():
            await self._send(send, upstream.status, body)
        flow.end()
        if self._capture.error:
            await self._end_refused(self._capture.error, upstream.status, flow.last, send)
        elif self._capture.is_complete:
            await self._log.end(ExchangeStatus.COMPLETED, upstream.status)
            await self._send(send, upstream.status, flow.last, is_last=True)
        else:
            raise UpstreamBrokenError
        upstream.release(_LAST_READ_SECONDS)

    def _hand_over(self, flow: EventFlow, chunk: bytes) -> bool:
        """From connection to connection, as long as the client takes it at once: no task is woken for a token."""
        if body := self._seen(flow, chunk):
            self._client.write_part(body)
        return self._client.is_writable and not flow.is_over

    def _seen(self, flow: EventFlow, chunk: bytes) -> bytes:
        body = flow.seen(chunk)
        if self._capture.has_generated and not self._log.has_first_token:
            self._limit.reschedule(self._log.note_first_token() + self._parts.settings.call_seconds)
        return body

    async def _end_refused(self, error: dict[str, Any], status: int, last: bytes, send: Send) -> None:
        """VLLM refuses some streams in their first event: nothing was sent yet, so the client gets a plain error."""
        if not self._has_started:
            code = error.get("code")
            status = code if isinstance(code, int) and code in _ERROR_STATUSES else UpstreamBrokenError.status
        await self._log.end(ExchangeStatus.FAILED, status)
        if self._has_started:
            await self._send(send, status, last, is_last=True)
        else:
            body = json.dumps(self._endpoint.envelope(error)).encode()
            await send_json(send, status, body, self._log.headers())

    async def _send(self, send: Send, status: int, body: bytes, *, is_last: bool = False) -> None:
        """A part of the stream; its headers go with the first."""
        if not self._has_started:
            await self._log.accepted()
            self._has_started = True
            headers = [*_STREAM_HEADERS, *self._log.headers()]
            await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": not is_last})

    def _count_dropped(self, reason: str, number: int) -> None:
        if number:
            self._parts.metrics.dropped_events.labels(reason).inc(number)

    async def _fail(self, error: ProxyError, send: Send) -> None:
        """Before the reply began: a status. After: an event in the stream, and nothing that says it was well."""
        self._capture.error = self._capture.error or error.object
        try:
            await self._log.end(ExchangeStatus.FAILED, error.status)
        except CaptureRefusedError as refusal:
            error = refusal
        await self._tell(error, send)

    async def _tell(self, error: ProxyError, send: Send) -> None:
        if self._has_started:
            await self._send(send, error.status, self._endpoint.error_event(error.object), is_last=True)
        else:
            await send_error(send, error, self._log.headers(), self._endpoint.envelope)
