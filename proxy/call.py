"""One call, from its acceptance to its last byte. docs/decisions/0003-call-lifecycle.md draws its states.

Invariant (I4): the record is durable before the last byte leaves, and there is exactly one per accepted call.
"""

import asyncio
import json

import structlog
from starlette.types import Receive, Send

from ledger.vocabulary import ExchangeStatus
from proxy.body import hang_up
from proxy.call_log import CallLog
from proxy.errors import (
    CaptureRefusedError,
    ProxyError,
    UpstreamBrokenError,
    UpstreamTimeoutError,
    send_error,
    send_json,
)
from proxy.live import Target
from proxy.parts import Parts
from proxy.reply.sse import DONE, DONE_EVENT, Event, EventReader
from proxy.reply.view import ReplyView, stream_event, whole_reply
from proxy.surface.request import ChatRequest
from proxy.upstream.dispatch import dispatched
from proxy.upstream.errors import SilentError, UpstreamError
from proxy.upstream.reply import UpstreamReply
from proxy.upstream.vllm import openai_error

log = structlog.get_logger()
_ERROR_STATUS = 400
_LINGER_SECONDS = 1.0


class Call:
    def __init__(self, parts: Parts, request: ChatRequest, target: Target, call_log: CallLog) -> None:
        self._parts = parts
        self._request = request
        self._target = target
        self._log = call_log
        self._capture = call_log.capture
        self._view = ReplyView(request, target.upstream_model, target.public_model)
        self._has_started = False  # the reply's headers are out

    async def run(self, receive: Receive, send: Send) -> None:
        """Answers, or stops as soon as the client is gone: vLLM aborts when its connection closes."""
        await self._log.accept()
        answer = asyncio.create_task(self._answer(send))
        gone = asyncio.create_task(hang_up(receive))
        self._parts.metrics.inflight.inc()
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._parts.metrics.inflight.dec()
            gone.cancel()
            answer.cancel()  # changes nothing if it is done
            await asyncio.wait({answer})
        if not answer.cancelled():
            answer.result()

    async def _answer(self, send: Send) -> None:
        body = self._request.upstream_body(self._target.upstream_model, is_captured=self._log.is_captured)
        try:
            async with (
                asyncio.timeout(self._parts.settings.upstream_first_token_seconds) as self._first_token_limit,
                dispatched(
                    self._parts,
                    self._target,
                    self._log.record.endpoint,
                    body,
                    self._log.record.call_id.hex,
                    self._affinity(),
                ) as response,
            ):
                await self._relay(response, send)
        except ProxyError as error:
            await self._fail(error, send)
        except (TimeoutError, SilentError):
            await self._fail(UpstreamTimeoutError(), send)
        except (UpstreamError, OSError, ValueError, RecursionError) as error:
            log.warning("upstream_broken", call_id=str(self._log.record.call_id), error=repr(error)[:200])
            await self._fail(UpstreamBrokenError(), send)
        except (
            Exception
        ):  # a fault of ours: the client gets an answer, the call its record, the log the trace
            log.exception("call_broken", call_id=str(self._log.record.call_id))
            await self._fail(ProxyError("The proxy failed; the request was fine."), send)
        finally:
            self._log.end_at_hang_up(has_started=self._has_started)

    def _affinity(self) -> bytes:
        """Calls with the same share a prefix, most likely."""
        attribution = self._log.record.attribution
        return (attribution.group_key or attribution.external_id or attribution.trajectory_id.hex).encode()

    async def _relay(self, response: UpstreamReply, send: Send) -> None:
        if response.status >= _ERROR_STATUS:
            await self._relay_error(response, send)
        elif response.content_type == "text/event-stream":
            await self._relay_stream(response, send)
        else:
            await self._relay_whole(response, send)

    async def _relay_whole(self, response: UpstreamReply, send: Send) -> None:
        body = whole_reply(await response.read(), self._view, self._capture)
        self._capture.is_done = True
        self._first_token_limit.reschedule(None)
        await self._log.end(ExchangeStatus.COMPLETED, response.status)
        await send_json(send, response.status, body, self._log.headers())

    async def _relay_error(self, response: UpstreamReply, send: Send) -> None:
        """An error object of vLLM's stays as it is; other shapes become OpenAI's."""
        raw, self._capture.error = openai_error(await response.read(), response.status)
        await self._log.end(ExchangeStatus.FAILED, response.status)
        retry_after = response.headers.get("retry-after")
        extra = [(b"retry-after", retry_after.encode("latin-1"))] if retry_after else []
        await send_json(send, response.status, raw, [*self._log.headers(), *extra])

    async def _relay_stream(self, response: UpstreamReply, send: Send) -> None:
        await self._start_stream(send, response.status)
        reader = EventReader()
        while chunk := await response.next_chunk():
            await self._relay_events(reader.feed(chunk), send)
            if self._capture.is_done or self._capture.error:
                break
        else:
            await self._relay_events(reader.close(), send)
        self._count_dropped("no_data", reader.num_dropped)
        if self._capture.error:
            await self._log.end(ExchangeStatus.FAILED, response.status)
            await _end_stream(send, b"")
            return
        if not self._capture.is_complete:
            raise UpstreamBrokenError
        await self._log.end(ExchangeStatus.COMPLETED, response.status)
        await _end_stream(send, DONE_EVENT)
        response.release(_LINGER_SECONDS)  # the end of the body comes right behind `[DONE]`

    async def _start_stream(self, send: Send, status: int) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            *self._log.headers(),
        ]
        self._has_started = True
        await send({"type": "http.response.start", "status": status, "headers": headers})

    async def _relay_events(self, events: list[Event], send: Send) -> None:
        """What the client may see of these events, in one write."""
        pieces: list[bytes] = []
        for event in events:
            if event.data == DONE:
                self._capture.is_done = True
                break
            try:
                piece, is_generated = stream_event(event, self._view, self._capture)
            except (ValueError, RecursionError):
                self._count_dropped("not_json", 1)
                continue
            if is_generated and not self._log.has_first_token:
                self._first_token_limit.reschedule(None)
                self._log.note_first_token()
            pieces.append(piece)
            if self._capture.error:
                break
        if body := b"".join(pieces):
            await send({"type": "http.response.body", "body": body, "more_body": True})

    def _count_dropped(self, reason: str, number: int) -> None:
        if number:
            self._parts.metrics.dropped_events.labels(reason).inc(number)

    async def _fail(self, error: ProxyError, send: Send) -> None:
        """Before the reply began: a status. After: an event in the stream, and no `[DONE]`."""
        self._capture.error = self._capture.error or error.envelope["error"]
        try:
            await self._log.end(ExchangeStatus.FAILED, error.status)
        except CaptureRefusedError as refusal:
            error = refusal
        if self._has_started:
            await _end_stream(send, Event(json.dumps(error.envelope).encode()).framed())
        else:
            await send_error(send, error, self._log.headers())


async def _end_stream(send: Send, last: bytes) -> None:
    await send({"type": "http.response.body", "body": last})
