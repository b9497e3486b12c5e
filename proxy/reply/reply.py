"""What every route's reply can do. One object a call; the call knows no more of a route than this."""

from typing import Protocol

from proxy.reply.capture import Capture
from proxy.reply.sse import Event

UNREADABLE = (ValueError, RecursionError, TypeError, AttributeError, KeyError)
"""What reading raises where something is no JSON, or is not shaped as any reply of the route is."""


class UnreadableReplyError(Exception):
    """The model server answered what is no reply of this route."""


class Reply(Protocol):
    """Fed the whole body or one event after another; keeps what the record needs; returns what the client may see."""

    capture: Capture

    def whole(self, raw: bytes) -> bytes:
        """What UNREADABLE lists if the body cannot be read."""
        ...

    def event(self, event: Event) -> bytes:
        """Nothing, for an event that the client did not ask for. What UNREADABLE lists if it cannot be read: it is dropped.

        When `capture.is_done` turns true, this was the stream's last event.
        """
        ...
