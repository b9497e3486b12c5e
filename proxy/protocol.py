"""What uvicorn leaves to us: how large, how slow and how odd the framing of a request may be, and when its client goes.

Invariants: a connection that sends no complete head within the limits costs bounded memory and bounded time; while a
call runs its connection is read, so that it tells when the client is gone.
"""

import asyncio
import json
import re
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy.connection import Client
from proxy.errors import HeadersTooLargeError, InvalidRequestError, ProxyError
from proxy.plain_reply import CHUNKS_SINCE, PlainReply
from proxy.settings import ProxySettings

_LINGER_SECONDS = 1.0
_LAST_LOOK_SECONDS = 0.1
_OFFER = re.compile(rb"\r\nupgrade(?=:)", re.IGNORECASE)
_REASONS = {400: "Bad Request", 431: "Request Header Fields Too Large"}


class LimitedProtocol(HttpToolsProtocol):
    def __init__(
        self, *args: Any, max_header_bytes: int, header_seconds: float, send_seconds: float, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.max_header_bytes = max_header_bytes
        self.header_seconds = header_seconds
        self.send_seconds = send_seconds
        self.caller = Client()
        self._num_framing_bytes = 0  # since the last byte of a body: of a head, of trailers, of empty lines
        self._head_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._is_refused = False
        self._linger_end: float | None = None  # loop time; None: no refusal was answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.caller.connected(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.resume_writing()
        super().connection_lost(exc)
        self.caller.gone()

    def pause_writing(self) -> None:
        """The client reads slower than we write: vLLM is slowed down with it, but not for ever."""
        super().pause_writing()
        self.caller.is_slow = True
        self._send_timer = self.loop.call_later(self.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        self.caller.is_slow = False
        super().resume_writing()

    def on_message_begin(self) -> None:
        self._await_head()
        super().on_message_begin()
        self.caller.join(self.scope)

    def on_headers_complete(self) -> None:
        self._num_framing_bytes = 0
        self._stop_timer()
        super().on_headers_complete()
        self.headers = []  # the parser appends trailers, too, and those are no headers of the call
        if self.scope["http_version"] < CHUNKS_SINCE:
            self.cycle.send = PlainReply(self.cycle, self.caller).send  # type: ignore[method-assign]

    def on_body(self, body: bytes) -> None:
        self._num_framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Uvicorn stops reading for a large piece of a body. Nobody asks for more, so nobody would read on."""
        self._num_framing_bytes = 0
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._linger()
            return
        if self._head_timer is not None and b"pgrade:" in data:
            data = _without_upgrade(data)
        self._num_framing_bytes += len(data)
        super().data_received(data)
        if self._num_framing_bytes > self.max_header_bytes:
            self._refuse(HeadersTooLargeError())
        elif self._head_timer is None and self._is_at_rest:  # empty lines, or a body that nobody reads
            self._await_head()

    @property
    def _is_at_rest(self) -> bool:
        """Its last request was answered."""
        return self.cycle is not None and self.cycle.response_complete and not self.pipeline

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequestError(f"This is no HTTP request that we understand: {msg}"))

    def _await_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, error: ProxyError) -> None:
        """Answers, then reads on for a moment: closing at once would reset the connection and lose the answer."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._stop_timer()
        if self._is_at_rest and self.cycle.more_body:
            self._hang_up()  # that request has its answer
        elif self.cycle is None or self.cycle.response_complete or self._gives_up_body():
            self._answer(error)

    def _gives_up_body(self) -> bool:
        """Whether nobody answers the request whose body breaks off. A reply under way ends as it should, and then the
        connection does.
        """
        self.cycle.keep_alive = False
        if self.pipeline or self.cycle.response_started or not self.cycle.more_body:
            return False
        self.cycle.disconnected = True
        self.cycle.message_event.set()  # whoever reads the body is told that the client is gone
        return True

    def _answer(self, error: ProxyError) -> None:
        body = json.dumps(error.envelope).encode()
        head = (
            f"HTTP/1.1 {error.status} {_REASONS[error.status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._hang_up()

    def _hang_up(self) -> None:
        self.transport.write_eof()
        self._linger_end = self.loop.time() + self.header_seconds
        self._linger()

    def _linger(self) -> None:
        """Reads on until the client is silent, but not for ever: what it still sends would turn a close into a reset."""
        if self._linger_end is None:
            return
        self._stop_timer()
        left = self._linger_end - self.loop.time()
        if left > 0:
            self._head_timer = self.loop.call_later(min(_LINGER_SECONDS, left), self._look_once_more)
        else:
            self.transport.close()

    def _look_once_more(self) -> None:
        """After a stall of this process its timers are due before it has read what came meanwhile."""
        self._head_timer = self.loop.call_later(_LAST_LOOK_SECONDS, self.transport.close)


def _without_upgrade(data: bytes) -> bytes:
    """An offer of HTTP/2 (Java's client makes one, and curl --http2) is declined as RFC 9110 lets us: by not hearing it.
    The parser would take the request's body for the other protocol.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _OFFER.sub(b"\r\nx-offer", head) + end + rest


def limited_protocol(settings: ProxySettings) -> "partial[LimitedProtocol]":
    """The protocol with this process' limits. A partial, not a class made here: worker processes unpickle it."""
    return partial(
        LimitedProtocol,
        max_header_bytes=settings.max_header_bytes,
        header_seconds=settings.header_seconds,
        send_seconds=settings.send_seconds,
    )
