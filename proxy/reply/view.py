"""What a client may see of vLLM's reply: what it asked for, as vLLM wrote it (I1).

Cut: `token_ids`, `prompt_token_ids`, `prompt_text` that were not asked for. Nulled: `logprobs` that were not.
Replaced: `model`, if it is the name that was dispatched; another name stays visible.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proxy.reply.capture import Capture
from proxy.reply.sse import Event
from proxy.splice import Edit, Member, cuts, decoded, document, edited, elements, encoded, members
from proxy.surface.request import ChatRequest


@dataclass(frozen=True, slots=True)
class ReplyView:
    """The edits for one call: the same for a whole reply and for each event of a stream."""

    request: ChatRequest
    dispatched_model: str
    public_model: str

    def edits(self, text: str, found: list[Member]) -> Iterator[Edit]:
        yield from cuts(found, self._cut_keys())
        for member in found:
            if member.key == "model" and member.value == self.dispatched_model:
                yield member.value_start, member.end, json.dumps(self.public_model)
            elif member.key == "choices" and isinstance(member.value, list):
                yield from self._choice_edits(text, member)

    def _cut_keys(self) -> Iterator[str]:
        if not self.request.wants_token_ids:
            yield "prompt_token_ids"
        if not self.request.wants_prompt_text:
            yield "prompt_text"
        if self.request.is_streamed and not self.request.wants_usage:
            yield "usage"

    def _choice_edits(self, text: str, choices: Member) -> Iterator[Edit]:
        for (start, _), choice in zip(elements(text, choices.value_start), choices.value, strict=True):
            if not isinstance(choice, dict):
                continue
            found = members(text, start)
            if not self.request.wants_token_ids:
                yield from cuts(found, ("token_ids",))
            if not self.request.wants_logprobs:
                spans = (m for m in found if m.key == "logprobs" and m.value is not None)
                yield from ((m.value_start, m.end, "null") for m in spans)


def whole_reply(raw: bytes, view: ReplyView, capture: Capture) -> bytes:
    """Captures a whole reply and returns what the client gets. ValueError if it is no JSON object."""
    text = decoded(raw)
    found = document(text)
    capture.add(_body(found))
    return encoded(edited(text, view.edits(text, found)))


def stream_event(event: Event, view: ReplyView, capture: Capture) -> tuple[bytes, bool]:
    """Captures one event. Returns what the client gets (nothing, for an event it did not ask for), and whether
    something was generated. ValueError if its data is no JSON object.
    """
    text = decoded(event.data)
    found = document(text)
    body = _body(found)
    is_generated = capture.add(body)
    if not view.request.wants_usage and "usage" in body and not body.get("choices"):
        return b"", is_generated
    edits = list(view.edits(text, found))
    if "choices" not in body and "error" not in body:
        edits.append((found[-1].end, found[-1].end, ',"choices":[]'))
    return event.framed(encoded(edited(text, edits))), is_generated


def _body(found: list[Member]) -> dict[str, Any]:
    return {member.key: member.value for member in found}
