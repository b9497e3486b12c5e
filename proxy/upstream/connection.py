"""One connection to a model server: a request goes out in one write, and what comes back fills a reply.

Invariant: a connection is used again only if its request went out whole, the reply came whole, nothing came behind it,
and the server agrees. No task, no queue; one timer, which moves itself on as long as bytes come.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from proxy.upstream.errors import BrokenError, MalformedError, SilentError, UpstreamError
from proxy.upstream.origin import Origin
from proxy.upstream.reply import MAX_BUFFERED, UpstreamReply

_MAX_HEAD_BYTES = 64 << 10  # with all that goes before the head: interim replies
_ONE_WRITE = 1 << 20  # a larger body is sent piece by piece, as the server takes it
_PIECE = 256 << 10


class Connection(asyncio.Protocol):
    def __init__(
        self,
        origin: Origin,
        loop: asyncio.AbstractEventLoop,
        on_idle: "Callable[[Connection], None]",
        on_lost: "Callable[[Connection], None]",
    ) -> None:
        self.origin = origin
        self.idle_since = 0.0  # loop time
        self.is_lost = False
        self.parser: Any = None  # one a reply: nothing of a reply is left for the next
        self._loop = loop
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._reply: UpstreamReply | None = None
        self._num_requests = 0
        self._num_head_bytes = 0
        self._has_begun = False  # a byte of the reply was seen
        self._is_sent = False
        self._is_writing_paused = self._is_reading_paused = False
        self._idle_seconds = self._heard_at = 0.0
        self._timer = self._linger_timer = cast("asyncio.TimerHandle | None", None)

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    async def exchange(self, method: str, head: bytes, body: bytes, idle_seconds: float) -> UpstreamReply:
        """The reply, once its head is in. Raises UpstreamError; then, and when cancelled, the connection is gone."""
        reply = self._begin(method, idle_seconds)
        try:
            if len(body) <= _ONE_WRITE:
                self._transport.write(head + body)
                self._is_sent = True
            else:
                await self._send(reply, head, body)
            while not reply.has_head and reply.error is None:
                await reply.wait()
        except BaseException:
            self.abort()
            raise
        if not reply.has_head and reply.error is not None:
            raise reply.error
        return reply

    def _begin(self, method: str, idle_seconds: float) -> UpstreamReply:
        self._num_requests += 1
        self._num_head_bytes = 0
        self._has_begun = self._is_sent = False
        if self.is_closing:
            raise self._broken(None)
        self._reply = reply = UpstreamReply(self, self._loop, is_head_only=method == "HEAD")
        self.parser = HttpResponseParser(reply)
        self._watch(idle_seconds)
        return reply

    async def _send(self, reply: UpstreamReply, head: bytes, body: bytes) -> None:
        """Stops where the server refuses: who answers an error in the middle reads no further."""
        self._transport.write(head)
        pieces = memoryview(body)
        for start in range(0, len(body), _PIECE):
            self._transport.write(pieces[start : start + _PIECE])
            while self._is_writing_paused and not reply.is_answer_enough:
                await reply.wait()
            if reply.is_answer_enough:
                return
        self._is_sent = True

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:
            self.abort()  # nobody asked: what else would come is nobody's reply either
            return
        self._has_begun = True
        self._heard_at = self._loop.time()
        if not reply.has_head:
            self._num_head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not reply.is_complete:
                self._fail(reply.error or MalformedError(f"The model server does not speak HTTP: {error}"))
                return
            reply.has_extra = True
        self._look_at(reply)

    def _look_at(self, reply: UpstreamReply) -> None:
        if reply.error is not None:
            self._fail(reply.error)
        elif reply.is_complete:
            self._settle(reply)
        elif not reply.has_head:
            if self._num_head_bytes > _MAX_HEAD_BYTES:
                self._fail(MalformedError("The head of the model server's reply is too large."))
            return
        elif reply.num_buffered > MAX_BUFFERED:
            self._hold_back(reply)
        reply.arrived()

    def eof_received(self) -> bool:
        self._end(None)
        self._transport.abort()  # close() would first send what nobody reads
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._stop_timers()
        self._on_lost(self)
        self._end(exc)

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._heard_at = self._loop.time()  # a server that reads is not silent
        if self._reply is not None:
            self._reply.wake()

    # What the reply asks for

    def resume_reading(self) -> None:
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._heard_at = self._loop.time()
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def abort(self) -> None:
        if self._reply is not None:
            self._reply.detach()
            self._reply = None
        self._stop_timers()
        self._transport.abort()

    def close(self) -> None:
        """Whoever reads from it is told."""
        self._fail(self._broken(None))

    def linger(self, seconds: float) -> None:
        """Lets the end of a released reply come: what comes before it is dropped."""
        assert self._reply is not None
        self._linger_timer = self._loop.call_later(seconds, self.abort)
        self._reply.take()

    # How a reply ends

    def _settle(self, reply: UpstreamReply) -> None:
        self._reply = self.parser = None
        reply.detach()
        if self._linger_timer is not None:
            self._stop_timers()
        if reply.is_keepable and self._is_sent and not reply.has_extra and not self.is_closing:
            self.resume_reading()  # a TLS transport delivers what it has decrypted, paused or not
            self.idle_since = self._loop.time()
            self._on_idle(self)
        else:
            self.abort()

    def _end(self, exc: Exception | None) -> None:
        """The server closed, or the connection broke."""
        reply = self._reply
        if reply is None:
            return
        if exc is None and reply.has_head and reply.is_until_close:
            reply.is_complete = True
            self._settle(reply)
            reply.wake()
            return
        self._fail(self._broken(exc))

    def _broken(self, exc: Exception | None) -> BrokenError:
        why = f" ({type(exc).__name__})" if exc else ""
        return BrokenError(
            f"The model server's connection was lost before its reply ended{why}.",
            has_begun=self._has_begun,
            was_reused=self._num_requests > 1,
        )

    def _fail(self, error: UpstreamError) -> None:
        reply = self._reply
        self.abort()
        if reply is not None:
            reply.break_off(error)

    def _hold_back(self, reply: UpstreamReply) -> None:
        if reply.is_released:
            self.abort()  # it lingers, and this is more than an end
        elif not self._is_reading_paused and not self.is_closing:
            self._is_reading_paused = True
            self._transport.pause_reading()

    # Silence

    def _watch(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._heard_at = self._loop.time()
        due = self._heard_at + idle_seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return  # it finds out by itself that it is early
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._check_silence)

    def _check_silence(self) -> None:
        self._timer = None
        if self._reply is None:
            return
        now = self._loop.time()
        if self._is_reading_paused:
            self._heard_at = now  # the silence is ours
        due = self._heard_at + self._idle_seconds
        if now >= due:
            self._fail(SilentError(f"The model server was silent for {self._idle_seconds:g} s."))
        else:
            self._timer = self._loop.call_at(due, self._check_silence)

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._linger_timer = None
