"""What vLLM produced for one call, gathered from its whole reply or from the events of its stream.

Invariant (I3): ids and logprobs are the numbers that vLLM wrote, in its order; what it did not write stays None.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ledger.records import ChoiceRecord

Json = Mapping[str, Any]


class ChoiceCapture:
    """One choice. Streamed and whole replies end in the same record."""

    __slots__ = (
        "completion_ids",
        "finish_reason",
        "index",
        "message",
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

    def add(self, choice: Json) -> bool:
        """Takes a choice of an event or of a whole reply; True if it holds something that was generated."""
        ids = choice.get("token_ids")
        if isinstance(ids, list):
            self.completion_ids = self.completion_ids or []
            self.completion_ids += ids
        if isinstance(logprobs := choice.get("logprobs"), dict):
            self._add_logprobs(logprobs.get("content"))
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        stop_reason = choice.get("stop_reason")
        self.stop_reason = self.stop_reason if stop_reason is None else str(stop_reason)
        delta = choice.get("delta") or choice.get("message")
        return self._add_message(delta) or bool(ids) if isinstance(delta, dict) else bool(ids)

    def _add_logprobs(self, content: Any) -> None:
        if isinstance(content, list):
            self.sampling_logprobs = self.sampling_logprobs or []
            self.sampling_logprobs += [token["logprob"] for token in _objects(content) if "logprob" in token]

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
            elif isinstance(value, str) and key != "role":
                self.message[key] = self.message.get(key, "") + value
            else:
                self.message[key] = value
        return has_content

    def record(self) -> ChoiceRecord:
        text = "".join(self.text)
        message = {"role": "assistant", **self.message, "content": text if self.text else None}
        for call in message.get("tool_calls", ()):
            call.pop("index", None)
        return ChoiceRecord(
            index=self.index,
            response=message,
            text=text,
            completion_ids=self.completion_ids,
            sampling_logprobs=self.sampling_logprobs,
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
        )


def add_tool_calls(calls: list[dict[str, Any]], deltas: Iterable[Any]) -> None:
    """Merges by index. A new id under a known index is another call; an empty id continues the last one."""
    for delta in deltas:
        if not isinstance(delta, dict):
            continue
        index, new_id = delta.get("index"), delta.get("id")
        same = [call for call in calls if index is not None and call.get("index") == index]
        is_continued = same and not (new_id and same[-1].get("id") and same[-1]["id"] != new_id)
        if not is_continued:
            calls.append({**delta, "function": dict(delta.get("function") or {})})
            continue
        call, function = same[-1], delta.get("function") or {}
        call["id"] = call.get("id") or new_id
        call["type"] = call.get("type") or delta.get("type")
        for key in ("name", "arguments"):
            if isinstance(function.get(key), str):
                call["function"][key] = (call["function"].get(key) or "") + function[key]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class Capture:
    """All choices of a call, and what stands beside them."""

    def __init__(self, num_choices: int) -> None:
        self.num_choices = num_choices
        self.choices: dict[int, ChoiceCapture] = {}
        self.answered_model: str | None = None
        self.prompt_ids: list[int] | None = None
        self.num_prompt_tokens: int | None = None
        self.error: dict[str, Any] | None = None
        self.is_done = False

    def add(self, body: Json) -> bool:
        """Takes one event, or the whole reply; True if it holds something that was generated."""
        if isinstance(error := body.get("error"), dict):
            self.error = error
        if isinstance(model := body.get("model"), str):
            self.answered_model = self.answered_model or model
        if self.prompt_ids is None and isinstance(ids := body.get("prompt_token_ids"), list):
            self.prompt_ids, self.num_prompt_tokens = ids, len(ids)
        if isinstance(usage := body.get("usage"), dict):
            self.num_prompt_tokens = usage.get("prompt_tokens", self.num_prompt_tokens)
        is_generated = False
        for choice in _objects(body.get("choices")):
            index = choice.get("index", 0)
            capture = self.choices.get(index) or self.choices.setdefault(index, ChoiceCapture(index))
            is_generated |= capture.add(choice)
        return is_generated

    @property
    def is_complete(self) -> bool:
        """Whether everything was produced: `[DONE]`, the whole body, or a finish reason for every choice."""
        finished = sum(choice.finish_reason is not None for choice in self.choices.values())
        return self.error is None and (self.is_done or finished >= self.num_choices)

    def records(self) -> list[ChoiceRecord]:
        return [self.choices[index].record() for index in sorted(self.choices)]
