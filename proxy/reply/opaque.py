"""Replies that are relayed and hold nothing to learn from: embeddings, token counts."""

import json

from proxy.reply.capture import Capture
from proxy.reply.sse import Event
from proxy.splice import decoded, document, edited, encoded


class OpaqueReply:
    def __init__(self, *, dispatched_model: str, public_model: str) -> None:
        self.capture = Capture(1)
        self._dispatched_model = dispatched_model
        self._public_model = json.dumps(public_model)

    def whole(self, raw: bytes) -> bytes:
        text = decoded(raw)
        found = document(text)
        self.capture.add_model({member.key: member.value for member in found})
        self.capture.is_done = True
        edits = [
            (m.value_start, m.end, self._public_model)
            for m in found
            if m.key == "model" and m.value == self._dispatched_model
        ]
        return encoded(edited(text, edits))

    def event(self, event: Event) -> bytes:
        return event.framed()
