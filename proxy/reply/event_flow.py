"""The bytes of a stream become what its client may see. The stream's last event is kept back: the record comes first."""

from collections.abc import Callable

from proxy.reply.reply import UNREADABLE, Reply, UnreadableReplyError
from proxy.reply.sse import EventReader

_MAX_EVENT_BYTES = 16 << 20


class EventFlow:
    """`seen` chunk after chunk, then, if the end did not come, `rest`. `last` is what the client gets at the very end."""

    __slots__ = ("_count_dropped", "_reader", "_reply", "last")

    def __init__(self, reply: Reply, count_dropped: Callable[[str, int], None]) -> None:
        self.last = b""
        self._reply = reply
        self._reader = EventReader()
        self._count_dropped = count_dropped

    @property
    def is_over(self) -> bool:
        capture = self._reply.capture
        return capture.is_done or capture.error is not None

    def seen(self, chunk: bytes) -> bytes:
        """Raises UnreadableReplyError for an event without an end."""
        seen = self._pieces(chunk)
        if self._reader.num_waiting_bytes > _MAX_EVENT_BYTES:
            raise UnreadableReplyError(f"an event of more than {_MAX_EVENT_BYTES} bytes")
        return seen

    def rest(self) -> bytes:
        """What stood in an event that was not ended."""
        return b"" if self.is_over else self._pieces(None)

    def end(self) -> None:
        if self._reader.num_dropped:
            self._count_dropped("no_data", self._reader.num_dropped)

    def _pieces(self, chunk: bytes | None) -> bytes:
        pieces: list[bytes] = []
        for event in self._reader.close() if chunk is None else self._reader.feed(chunk):
            try:
                piece = self._reply.event(event)
            except UNREADABLE:
                self._count_dropped("not_json", 1)
                continue
            if self.is_over:
                self.last = piece
                break
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
