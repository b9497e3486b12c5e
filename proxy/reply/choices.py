"""Replies made of choices (chat and legacy completions): what the client may see is what it asked for, as vLLM wrote
it (I1).

Cut: `token_ids`, `prompt_token_ids`, `prompt_text` that were not asked for. Nulled: `logprobs` that were not.
Replaced: `model`, if it is the name that was dispatched; another name stays visible.
"""

import json
from collections.abc import Iterator
from typing import Any

from proxy.reply.capture import Capture
from proxy.reply.choice import index_of, objects
from proxy.reply.sse import DONE, DONE_EVENT, Event
from proxy.reply.token_event import TokenEvents
from proxy.reply.token_spans import cut_prompt_ids
from proxy.reply.whole_chat import read_whole_chat
from proxy.splice import Edit, Member, cuts, decoded, document, edited, elements, encoded, members
from proxy.surface.request import Asked


class ChoicesReply:
    def __init__(
        self,
        asked: Asked,
        dispatched_model: str,
        public_model: str,
        *,
        num_choices: int = 1,
        is_streamed: bool = False,
        is_chat: bool = True,
    ) -> None:
        self.capture = Capture(num_choices)
        self._asked = asked
        self._dispatched_model = dispatched_model
        self._public_model = json.dumps(public_model)
        self._dispatched_mark = b'"model":' + json.dumps(dispatched_model).encode()
        self._public_mark = b'"model":' + self._public_model.encode()
        self._is_streamed = is_streamed
        self._cut_keys = frozenset(_cut_keys(asked))
        shows_tokens = asked.logprobs or asked.token_ids
        self._token_events = TokenEvents(self.capture) if is_chat and not shows_tokens else None

    def whole(self, raw: bytes) -> bytes:
        if self._token_events and (seen := self._whole_chat(raw)) is not None:
            return seen
        text, found, body = _parsed(raw)
        self.capture.add(body)
        self.capture.is_done = True
        return encoded(edited(text, self._edits(text, found)))

    def _whole_chat(self, raw: bytes) -> bytes | None:
        """None if the reply is written otherwise than vLLM writes it."""
        read = read_whole_chat(raw, shows_prompt_text=self._asked.prompt_text)
        if read is None or read.text.count(self._dispatched_mark) != 1:
            return None
        if read.body.get("model") != self._dispatched_model:
            return None
        if read.prompt_ids is not None:
            self.capture.add_prompt_ids(read.prompt_ids)
        self.capture.add(read.body)
        self.capture.is_done = True
        for choice, (completion_ids, sampling_logprobs) in zip(
            read.body["choices"], read.tokens, strict=False
        ):
            self.capture.choice(index_of(choice)).add_tokens(completion_ids, sampling_logprobs)
        return read.text.replace(self._dispatched_mark, self._public_mark)

    def event(self, event: Event) -> bytes:
        if self._token_events and (seen := self._token_events.event(event)):
            return seen
        if event.data == DONE:
            self.capture.is_done = True
            return DONE_EVENT
        text, found, body = _parsed(self._without_prompt_ids(event.data))
        self.capture.add(body)
        if not self._asked.usage and "usage" in body and not body.get("choices"):
            return b""
        if not self._asked.token_ids and not self._asked.logprobs and _is_ours(body):
            return b""
        edits = list(self._edits(text, found))
        if self._token_events and event.name is None:
            self._token_events.learn(text, found, edits)
        if "choices" not in body and "error" not in body:
            edits.append((found[-1].end, found[-1].end, ',"choices":[]'))
        return event.framed(encoded(edited(text, edits)))

    def _without_prompt_ids(self, raw: bytes) -> bytes:
        if not self._token_events:
            return raw
        rest, ids = cut_prompt_ids(raw)
        if ids is not None:
            self.capture.add_prompt_ids(ids)
        return rest

    def _edits(self, text: str, found: list[Member]) -> Iterator[Edit]:
        cut_keys = (
            self._cut_keys if self._asked.usage or not self._is_streamed else self._cut_keys | {"usage"}
        )
        yield from cuts(found, cut_keys)
        for member in found:
            if member.key == "model" and member.value == self._dispatched_model:
                yield member.value_start, member.end, self._public_model
            elif member.key == "choices" and isinstance(member.value, list):
                yield from self._choice_edits(text, member)

    def _choice_edits(self, text: str, choices: Member) -> Iterator[Edit]:
        for (start, _), choice in zip(elements(text, choices.value_start), choices.value, strict=True):
            if not isinstance(choice, dict):
                continue
            found = members(text, start)
            yield from cuts(found, self._cut_keys)
            if not self._asked.logprobs:
                spans = (m for m in found if m.key == "logprobs" and m.value is not None)
                yield from ((m.value_start, m.end, "null") for m in spans)


def _cut_keys(asked: Asked) -> Iterator[str]:
    """Of the body and of a choice: a legacy completion has its prompt's ids in each choice."""
    if not asked.token_ids:
        yield from ("token_ids", "prompt_token_ids")
    if not asked.prompt_text:
        yield "prompt_text"


def _is_ours(body: dict[str, Any]) -> bool:
    """An event that vLLM writes only for those who ask for ids: a token that a parser holds back adds nothing yet."""
    choices = objects(body.get("choices"))
    return bool(choices) and all(
        choice.get("delta") == {}
        and choice.get("finish_reason") is None
        and choice.get("token_ids") is not None
        for choice in choices
    )


def _parsed(raw: bytes) -> tuple[str, list[Member], dict[str, Any]]:
    text = decoded(raw)
    found = document(text)
    return text, found, {member.key: member.value for member in found}
