"""Replies of /v1/responses. vLLM tells ids in `input_messages` and `output_messages`, which we ask for and empty again.

In a stream they stand in its last event only, so an answer that was cut off has none; and vLLM leaves out the logprob of
an end token there: such a row says `logprobs_mismatch`, and nothing is made up (I3).
"""

import json
from collections.abc import Iterator
from typing import Any

from proxy.reply.capture import Capture
from proxy.reply.choice import ChoiceCapture, are_ids, objects
from proxy.reply.sse import Event
from proxy.splice import Edit, decoded, document, edited, encoded, nested

_LAST = {"response.completed", "response.incomplete", "response.failed"}
_RAW_KEYS = ("input_messages", "output_messages")
_LOGPROBS = ("output", "*", "content", "*", "logprobs")
_EVENT_LOGPROBS = (("part", "logprobs"), ("item", "content", "*", "logprobs"))


class ResponsesReply:
    def __init__(
        self, *, dispatched_model: str, public_model: str, wants_ids: bool, wants_logprobs: bool
    ) -> None:
        self.capture = Capture(1)
        self._dispatched_model = dispatched_model
        self._public_model = json.dumps(public_model)
        self._wants_ids = wants_ids
        self._wants_logprobs = wants_logprobs

    def whole(self, raw: bytes) -> bytes:
        text = decoded(raw)
        body = {member.key: member.value for member in document(text)}
        self._take(body)
        self.capture.is_done = True
        return encoded(edited(text, self._response_edits(text, ())))

    def event(self, event: Event) -> bytes:
        text = decoded(event.data)
        body = {member.key: member.value for member in document(text)}
        kind = body.get("type")
        if kind == "error":
            self.capture.error = {key: body.get(key) for key in ("message", "type", "param", "code")}
        if isinstance(response := body.get("response"), dict):
            self.capture.add_model(response)
            if kind in _LAST:
                self._take(response)
                self.capture.is_done = self.capture.error is None
        if isinstance(delta := body.get("delta"), str):
            self._add_delta(str(kind), delta, body.get("logprobs"))
        edits = [*self._response_edits(text, ("response",)), *self._event_edits(text)]
        return event.framed(encoded(edited(text, edits)))

    def _add_delta(self, kind: str, delta: str, logprobs: Any) -> None:
        """What is known if the answer is cut off; its last event replaces it."""
        self.capture.has_generated |= bool(delta)
        if kind == "response.output_text.delta":
            choice = self.capture.choice(0)
            choice.text.append(delta)
            choice.sampling_logprobs = (choice.sampling_logprobs or []) + [
                p["logprob"] for p in objects(logprobs)
            ]

    def _take(self, response: dict[str, Any]) -> None:
        self.capture.add_model(response)
        if isinstance(error := response.get("error"), dict):
            self.capture.error = error
        choice = ChoiceCapture(0)
        self.capture.choices[0] = choice
        parts = [part for item in objects(response.get("output")) for part in objects(item.get("content"))]
        choice.text = [str(part["text"]) for part in parts if part.get("type") == "output_text"]
        listed = [part["logprobs"] for part in parts if isinstance(part.get("logprobs"), list)]
        choice.sampling_logprobs = (
            [p["logprob"] for logprobs in listed for p in objects(logprobs)] if listed else None
        )
        choice.completion_ids = _tokens(response.get("output_messages"))
        choice.finish_reason = _text(response.get("status"))
        details = response.get("incomplete_details")
        choice.stop_reason = _text(details.get("reason")) if isinstance(details, dict) else None
        choice.message = {"output": response.get("output")}
        self.capture.prompt_ids = _tokens(response.get("input_messages"))
        if isinstance(usage := response.get("usage"), dict):
            self.capture.add_num_prompt_tokens(usage.get("input_tokens"))
        self.capture.has_generated |= bool(parts)

    def _response_edits(self, text: str, prefix: tuple[str, ...]) -> Iterator[Edit]:
        for member in nested(text, 0, (*prefix, "model")):
            if member.value == self._dispatched_model:
                yield member.value_start, member.end, self._public_model
        for key in () if self._wants_ids else _RAW_KEYS:
            yield from _replaced(text, (*prefix, key), "null")
        if not self._wants_logprobs:
            yield from _replaced(text, (*prefix, "top_logprobs"), "null")
            yield from _replaced(text, (*prefix, *_LOGPROBS), "null")

    def _event_edits(self, text: str) -> Iterator[Edit]:
        if self._wants_logprobs:
            return
        yield from _replaced(text, ("logprobs",), "[]")
        for path in _EVENT_LOGPROBS:
            yield from _replaced(text, path, "null")


def _replaced(text: str, path: tuple[str, ...], replacement: str) -> Iterator[Edit]:
    """Where something stands there: null and [] stay as they are."""
    yield from (
        (m.value_start, m.end, replacement) for m in nested(text, 0, path) if m.value not in (None, [])
    )


def _tokens(items: Any) -> list[int] | None:
    """The ids of all raw messages; None if there are none to tell."""
    listed = [item.get("tokens") for item in objects(items)]
    return [id_ for ids in listed if are_ids(ids) for id_ in ids] if listed else None


def _numbers(logprobs: Any) -> list[float]:
    return [n for p in objects(logprobs) if isinstance(n := p.get("logprob"), int | float)]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
