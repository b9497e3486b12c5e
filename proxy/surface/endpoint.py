"""A route of the data plane: how its requests are understood, its replies read, and its errors told."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.errors import Envelope, openai_envelope
from proxy.reply.reply import Reply
from proxy.reply.sse import Event
from proxy.settings import ProxySettings
from proxy.surface.document import Document
from proxy.surface.request import ModelRequest


@dataclass(frozen=True, slots=True)
class Endpoint:
    path: str
    understand: Callable[[Document, ProxySettings], ModelRequest]  # raises InvalidRequestError
    new_reply: Callable[[ModelRequest, str, str], Reply]  # the request, the model dispatched, the model told
    envelope: Envelope = openai_envelope
    is_captured: bool = True
    names_events: bool = False  # its streams say `event: …`, also for an error

    def error_event(self, error: dict[str, Any]) -> bytes:
        """A failure told in a stream that has begun."""
        return Event(
            json.dumps(self.envelope(error)).encode(), b"error" if self.names_events else None
        ).framed()
