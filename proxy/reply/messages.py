"""Replies of /v1/messages, in Anthropic's shapes. vLLM tells no ids there: such rows are kept and never trained."""

import json
from collections.abc import Iterator
from typing import Any

from proxy.reply.capture import Capture
from proxy.reply.choice import objects
from proxy.reply.sse import Event
from proxy.splice import Edit, decoded, document, edited, encoded, nested


class MessagesReply:
    def __init__(self, *, dispatched_model: str, public_model: str) -> None:
        self.capture = Capture(1)
        self._dispatched_model = dispatched_model
        self._public_model = json.dumps(public_model)
        self._blocks: list[dict[str, Any]] = []

    def whole(self, raw: bytes) -> bytes:
        text = decoded(raw)
        body = {member.key: member.value for member in document(text)}
        self.capture.add_model(body)
        self._add_usage(body)
        self._blocks = objects(body.get("content"))
        self._finish(body)
        self.capture.is_done = True
        return encoded(edited(text, self._edits(text, ("model",))))

    def event(self, event: Event) -> bytes:
        text = decoded(event.data)
        body = {member.key: member.value for member in document(text)}
        self.capture.add_error(body)
        if isinstance(message := body.get("message"), dict):  # message_start
            self._blocks = []
            self.capture.add_model(message)
            self._add_usage(message)
        elif body.get("type") == "content_block_start":
            block = body.get("content_block")
            self._blocks.append(dict(block) if isinstance(block, dict) else {})
        elif isinstance(delta := body.get("delta"), dict):
            self._add_delta(delta)
        self.capture.is_done = body.get("type") == "message_stop"
        return event.framed(encoded(edited(text, self._edits(text, ("message", "model")))))

    def _add_delta(self, delta: dict[str, Any]) -> None:
        """Of the block that was begun last, or of the message."""
        if "stop_reason" in delta:
            self._finish(delta)
            return
        self.capture.has_generated = True
        block = self._blocks[-1] if self._blocks else {}
        for key, value in delta.items():
            if key == "partial_json":  # a tool's input: kept as the raw text that the model wrote
                block["partial_json"] = block.get("partial_json", "") + str(value)
            elif key != "type" and isinstance(value, str):
                block[key] = (block.get(key) or "") + value

    def _finish(self, body: dict[str, Any]) -> None:
        choice = self.capture.choice(0)
        choice.text = [str(block["text"]) for block in self._blocks if block.get("type") == "text"]
        choice.finish_reason = body.get("stop_reason")
        choice.stop_reason = body.get("stop_sequence")
        choice.message = {"blocks": self._blocks}
        self.capture.has_generated |= bool(self._blocks)

    def _add_usage(self, body: dict[str, Any]) -> None:
        if isinstance(usage := body.get("usage"), dict):
            self.capture.add_num_prompt_tokens(usage.get("input_tokens"))

    def _edits(self, text: str, path: tuple[str, ...]) -> Iterator[Edit]:
        for member in nested(text, 0, path):
            if member.value == self._dispatched_model:
                yield member.value_start, member.end, self._public_model
