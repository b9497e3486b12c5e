"""One reply of a model server: its head, and its body as it comes.

The parser fills it, one reader empties it. Invariant: the reader gets every byte that arrived, decoded, before it gets
the error that ended the reply, and an end that was not announced is never taken for one.
"""

import asyncio
from collections.abc import Callable

from proxy.upstream.decoding import Decoder, check_transfer, decoder_of
from proxy.upstream.errors import BrokenError, MalformedError, UpstreamError
from proxy.upstream.wire import Wire

MAX_BUFFERED = 64 << 10
_SWITCHING, _OK, _NO_CONTENT, _NOT_MODIFIED, _BAD = 101, 200, 204, 304, 400


class UpstreamReply:
    def __init__(self, wire: Wire, loop: asyncio.AbstractEventLoop, *, is_head_only: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}  # lower-case names
        self.content_type = ""  # lower-case, without parameters
        self.has_head = False
        self.is_complete = False  # its end has arrived
        self.is_until_close = False  # its end is the connection's
        self.is_keepable = False  # the server lets the connection be used again
        self.has_extra = False  # something came behind its end
        self.is_head_only = is_head_only
        self.is_released = False
        self.error: UpstreamError | None = None
        self._is_interim = False
        self._chunks: list[bytes] = []
        self._num_chunk_bytes = 0
        self._decoder: Decoder | None = None
        self._wire: Wire | None = wire  # until the end
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Callable[[bytes], bool] | None = None
        self._sink_fault: Exception | None = None

    # For the reader

    async def pour(self, sink: Callable[[bytes], bool]) -> None:
        """What arrives goes to `sink` at once and wakes nobody, until `sink` returns False or the reply ends. What the
        sink did not get is for next_chunk; what it raises is raised here.
        """
        if self._chunks or self._decoder is not None or self.is_complete or self.error is not None:
            return
        self._sink = sink
        try:
            while self._sink is not None and not self.is_complete and self.error is None:
                await self.wait()
        finally:
            self._sink = None
        if self._sink_fault is not None:
            raise self._sink_fault

    async def next_chunk(self) -> bytes:
        """Everything that has arrived since; b"" = the end of the body. Raises UpstreamError."""
        while True:
            if chunk := self.take():
                return chunk
            if self._has_more:
                continue
            if self.error is not None:
                raise self.error
            if self.is_complete:
                self._require_finished()
                return b""
            await self.wait()

    def take(self) -> bytes:
        """What is here already, without waiting; b"" if nothing is."""
        chunks = self._chunks
        if not chunks and not self._has_more:
            return b""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        is_full = self.num_buffered > MAX_BUFFERED
        self._chunks = []
        self._num_chunk_bytes = 0
        if self._decoder is not None:
            data = self._decoded(self._decoder, data)
        if is_full and self._wire is not None and self.num_buffered <= MAX_BUFFERED:
            self._wire.resume_reading()
        return data

    async def read(self, max_bytes: int | None = None) -> bytes:
        """The whole body. Raises UpstreamError, also if it is larger than that."""
        first = await self.next_chunk()
        if self.is_complete and not self._chunks and not self._has_more:
            self._require_finished()
            return first
        chunks, num_bytes = [first], len(first)
        while chunks[-1]:
            chunks.append(await self.next_chunk())
            num_bytes += len(chunks[-1])
            if max_bytes is not None and num_bytes > max_bytes:
                raise MalformedError(f"The model server's reply is larger than {max_bytes} bytes.")
        return b"".join(chunks)

    def put_back(self, body: bytes) -> None:
        """What `read` returned can be read again."""
        self._chunks, self._num_chunk_bytes, self._decoder = [body], len(body), None

    def release(self, linger_seconds: float = 0.0) -> None:
        """The reader wants no more; one that waits is told so by a BrokenError. Idempotent.

        A connection whose reply has come to its end goes on to other requests; any other is aborted, which makes
        vLLM stop generating: at once, or when the end has not come within `linger_seconds` (nobody waits for that).
        """
        if self.is_released:
            return
        self.is_released = True
        if self._wire is None:
            return
        if linger_seconds:
            self._wire.linger(linger_seconds)
            return
        self._wire.abort()
        self.break_off(BrokenError("The reader gave the reply up.", has_begun=True, was_reused=False))

    # For the connection

    @property
    def num_buffered(self) -> int:
        waiting = self._decoder.num_waiting if self._decoder is not None else 0
        return self._num_chunk_bytes + waiting

    @property
    def is_answer_enough(self) -> bool:
        """Whether there is no use in sending more of the request."""
        return self.is_complete or self.error is not None or self.status >= _BAD

    async def wait(self) -> None:
        """Until something changes. One reader at a time."""
        assert self._waiter is None, "two readers of one reply"
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def arrived(self) -> None:
        """The sink takes it, or the reader is woken."""
        if self._sink is not None and self._chunks and not self.is_complete:
            try:
                is_taken = self._sink(self.take())
            except Exception as fault:  # noqa: BLE001 - the reader's own, not the connection's
                is_taken, self._sink_fault = False, fault
            if is_taken:
                return
            self._sink = None
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def detach(self) -> None:
        """The connection has nothing more to do with it."""
        self._wire = None

    def break_off(self, error: UpstreamError) -> None:
        self._wire = None
        self.error = self.error or error
        self.wake()

    # For the parser

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.has_extra = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        assert self._wire is not None
        status = self._wire.parser.get_status_code()
        if status == _SWITCHING:
            self.error = MalformedError("The model server switches to another protocol; nobody asked it to.")
        elif status < _OK:
            self._is_interim = True
        elif not self.has_head:
            self.status = status
            self._read_head()

    def on_body(self, data: bytes) -> None:
        if self.is_complete:
            self.has_extra = True
            return
        self._chunks.append(data)
        self._num_chunk_bytes += len(data)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
            self.headers = {}
        elif not self.is_complete:
            self._complete()

    def _read_head(self) -> None:
        headers = self.headers
        self.content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = not (self.is_head_only or self.status in {_NO_CONTENT, _NOT_MODIFIED})
        try:
            check_transfer(headers.get("transfer-encoding", "chunked"))
            self._decoder = decoder_of(headers.get("content-encoding", "")) if has_body else None
        except MalformedError as error:
            self.error = error
            return
        self.has_head = True
        if has_body:
            self.is_until_close = "content-length" not in headers and "transfer-encoding" not in headers
        else:
            self._complete()

    def _complete(self) -> None:
        assert self._wire is not None
        self.is_complete = True
        self.is_keepable = self._wire.parser.should_keep_alive()

    # Decoding

    @property
    def _has_more(self) -> bool:
        return self._decoder is not None and self._decoder.has_more

    def _decoded(self, decoder: Decoder, data: bytes) -> bytes:
        try:
            return decoder.decode(data)
        except MalformedError as error:
            self._give_up(error)
            return b""

    def _require_finished(self) -> None:
        try:
            if self._decoder is not None:
                self._decoder.finish()
        except MalformedError as error:
            self._give_up(error)
            raise

    def _give_up(self, error: MalformedError) -> None:
        self.error, self._decoder = error, None
        if self._wire is not None:
            self._wire.abort()
