"""One choice of a reply as it grows: streamed and whole replies end in the same record."""

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from ledger.identifiers import MAX_CHOICES
from ledger.records import ChoiceRecord
from proxy.reply.tool_calls import add_tool_calls

Json = Mapping[str, Any]
MAX_ID = (1 << 31) - 1  # of a token: what Postgres can hold


class ChoiceCapture:
    """Fed parsed choices or, from the events that vLLM writes most, the raw text of what one token added."""

    __slots__ = (
        "_raw_ids",
        "_raw_logprobs",
        "_raw_text",
        "completion_ids",
        "finish_reason",
        "index",
        "message",
        "prompt_ids",
        "sampling_logprobs",
        "stop_reason",
        "text",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.text: list[str] = []
        self.completion_ids: list[int] | None = None
        self.sampling_logprobs: list[float] | None = None
        self.finish_reason: str | None = None
        self.stop_reason: str | None = None
        self.message: dict[str, Any] = {}
        self.prompt_ids: list[int] | None = None
        self._raw_text = bytearray()
        self._raw_ids = bytearray()
        self._raw_logprobs = bytearray()

    def add_raw(self, text: bytes, ids: bytes, logprob: bytes) -> None:
        """The inside of a JSON string, of an array of ids, and one number, as vLLM wrote them."""
        self._raw_text += text
        self._raw_ids += ids
        self._raw_ids += b","
        self._raw_logprobs += logprob
        self._raw_logprobs += b","

    def add_tokens(self, ids: list[int], sampling_logprobs: list[float]) -> None:
        self._add_ids(ids)
        self.sampling_logprobs = self.sampling_logprobs or []
        self.sampling_logprobs += sampling_logprobs

    def add(self, choice: Json) -> bool:
        """Takes a choice of an event or of a whole reply; True if it holds something that was generated."""
        self._settle()
        ids = choice.get("token_ids")
        if are_ids(ids):
            self._add_ids(ids)
        if are_ids(prompt_ids := choice.get("prompt_token_ids")):
            self.prompt_ids = prompt_ids
        if isinstance(logprobs := choice.get("logprobs"), dict):
            self._add_logprobs(logprobs)
        if (finish_reason := choice.get("finish_reason")) and isinstance(finish_reason, str):
            self.finish_reason = finish_reason
        stop_reason = choice.get("stop_reason")
        self.stop_reason = self.stop_reason if stop_reason is None else str(stop_reason)
        if isinstance(text := choice.get("text"), str):
            self.text.append(text)
            return bool(text) or bool(ids)
        delta = choice.get("delta") or choice.get("message")
        return self._add_message(delta) or bool(ids) if isinstance(delta, dict) else bool(ids)

    def _add_logprobs(self, logprobs: Json) -> None:
        """Of a chat (objects, one a token), or of a legacy completion (parallel lists)."""
        if isinstance(content := logprobs.get("content"), list):
            sampled = [token.get("logprob") for token in objects(content)]
        elif isinstance(listed := logprobs.get("token_logprobs"), list):
            sampled = listed
        else:
            return
        self.sampling_logprobs = self.sampling_logprobs or []
        self.sampling_logprobs += [logprob for logprob in sampled if isinstance(logprob, int | float)]

    def _add_ids(self, ids: list[int]) -> None:
        self.completion_ids = self.completion_ids or []
        self.completion_ids += ids

    def _add_message(self, delta: Json) -> bool:
        has_content = False
        for key, value in delta.items():
            if value is None or value == []:
                continue
            has_content |= key != "role" and bool(value)
            if key == "content" and isinstance(value, str):
                self.text.append(value)
            elif key == "tool_calls" and isinstance(value, list):
                add_tool_calls(self.message.setdefault("tool_calls", []), value)
            elif isinstance(value, str) and key != "role" and isinstance(self.message.get(key, ""), str):
                self.message[key] = self.message.get(key, "") + value
            else:
                self.message[key] = value
        return has_content

    def _settle(self) -> None:
        """What was raw so far becomes values."""
        if not self._raw_ids:
            return
        ids, logprobs = (
            json.loads(b"[%b]" % bytes(self._raw_ids[:-1])),
            json.loads(b"[%b]" % bytes(self._raw_logprobs[:-1])),
        )
        self.text.append(json.loads('"' + self._raw_text.decode("utf-8", "surrogateescape") + '"'))
        self.add_tokens(ids, logprobs)
        for raw in (self._raw_text, self._raw_ids, self._raw_logprobs):
            raw.clear()

    def record(self) -> ChoiceRecord:
        self._settle()
        text = "".join(self.text)
        message = {"role": "assistant", **self.message, "content": text if self.text else None}
        for call in objects(message.get("tool_calls")):
            call.pop("index", None)
        return ChoiceRecord(
            index=self.index,
            response=message,
            text=text,
            completion_ids=self.completion_ids,
            sampling_logprobs=self.sampling_logprobs,
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            prompt_ids=self.prompt_ids,
        )


def objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def are_ids(value: Any) -> TypeGuard[list[int]]:
    """Whether it is a list that Postgres and the trainer can take for token ids."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= MAX_ID for item in value)


def index_of(choice: Json) -> int:
    """0 where it is no number that a choice can have: what was generated is kept all the same."""
    index = choice.get("index")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < MAX_CHOICES:
        return index
    return 0
