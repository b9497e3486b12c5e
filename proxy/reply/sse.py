r"""Server-sent events, read incrementally: the events are the same wherever the bytes were cut.

Invariant: what we emit is `[event: NAME\n]data: …\n\n` only, in UTF-8. Comments, `id:`, `retry:`, a BOM and events without data
never reach a client, because real SDKs die on them.
"""

import re
from dataclasses import dataclass

_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?!\Z))")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
DONE = b"[DONE]"
DONE_EVENT = b"data: [DONE]\n\n"


@dataclass(slots=True)
class Event:
    data: bytes
    name: bytes | None = None

    def framed(self, data: bytes | None = None) -> bytes:
        """The event as clients can read it, with other data if given."""
        content = _readable(self.data if data is None else data)
        head = b"event: " + self.name + b"\n" if self.name else b""
        return head + b"data: " + content.replace(b"\n", b"\ndata: ") + b"\n\n"


def _readable(content: bytes) -> bytes:
    """Bytes that are no UTF-8 become U+FFFD: SDKs die on them in mid-stream (B078)."""
    return content if content.isascii() else content.decode("utf-8", "replace").encode()


class EventReader:
    """Feed it chunks as they come; `close()` returns what stood in the last, unfinished event."""

    __slots__ = ("_has_begun", "_rest", "num_dropped")

    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False
        self.num_dropped = 0  # frames without data

    @property
    def num_waiting_bytes(self) -> int:
        """Of an event that has not come to its end."""
        return len(self._rest)

    def feed(self, chunk: bytes) -> list[Event]:
        rest = self._rest + chunk if self._rest else chunk
        if not self._has_begun:
            if len(rest) < len(_BOM) and _BOM.startswith(rest):
                self._rest = rest
                return []
            rest, self._has_begun = rest.removeprefix(_BOM), True
        *frames, self._rest = _split(rest)
        return [event for event in map(self._event, frames) if event]

    def close(self) -> list[Event]:
        frames = [frame for frame in _split(self._rest + b"\n\n") if frame]
        self._rest = b""
        return [event for event in map(self._event, frames) if event]

    def _event(self, frame: bytes) -> Event | None:
        if frame.startswith(b"data: ") and b"\n" not in frame and b"\r" not in frame:
            return Event(frame[6:])  # what vLLM sends
        event = _parsed(frame)
        self.num_dropped += event is None
        return event


def _split(buffer: bytes) -> list[bytes]:
    return _BLANK_LINE.split(buffer) if b"\r" in buffer else buffer.split(b"\n\n")


def _parsed(frame: bytes) -> Event | None:
    data: list[bytes] = []
    name = None
    for line in _LINE_END.split(frame):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    joined = b"\n".join(data)
    return Event(joined, name) if joined else None
