"""A chat request: checked as far as we depend on it, and rewritten for vLLM by span.

Invariant: the bytes that go upstream are the client's, but for the value of `model` and what capture needs.
"""

import math
from dataclasses import dataclass
from typing import Any

from proxy.errors import InvalidRequestError
from proxy.splice import Member, decoded, document, edited, encoded

_CAPTURE_FIELDS = {"return_token_ids": "true", "logprobs": "true", "top_logprobs": "0"}
_HUGE = 1 << 63  # beyond it Postgres has no bigint


@dataclass(frozen=True, slots=True)
class ChatRequest:
    text: str
    members: list[Member]
    body: dict[str, Any]
    num_choices: int

    @property
    def messages(self) -> list[Any]:
        messages: list[Any] = self.body["messages"]
        return messages

    @property
    def requested_model(self) -> str:
        return self.body.get("model") or ""

    @property
    def wants_logprobs(self) -> bool:
        return bool(self.body.get("logprobs"))

    @property
    def wants_token_ids(self) -> bool:
        return bool(self.body.get("return_token_ids"))

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def wants_usage(self) -> bool:
        """In a stream; a whole reply always holds its usage."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and bool(options.get("include_usage"))

    @property
    def wants_prompt_text(self) -> bool:
        return self.wants_token_ids or bool(self.body.get("return_prompt_text"))

    def number(self, name: str, default: float | None = None) -> float | None:
        """A sampling parameter as vLLM will read it ("0.2" and true are numbers to pydantic); else `default`."""
        value = self.body.get(name)
        try:
            number = float(value) if isinstance(value, int | float | str) else math.nan
        except (ValueError, OverflowError):
            return default
        return number if abs(number) < _HUGE else default

    def integer(self, name: str) -> int | None:
        value = self.body.get(name)
        is_storable = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _HUGE
        return value if is_storable else None

    def upstream_body(self, model: str, *, is_captured: bool) -> bytes:
        """The client's bytes with `model` replaced and, if captured, token ids and logprobs asked for."""
        wanted = {"model": f'"{_escaped(model)}"'}
        if is_captured:
            wanted |= self._capture_fields()
        present = {member.key for member in self.members}
        edits = [(m.value_start, m.end, wanted[m.key]) for m in self.members if m.key in wanted]
        additions = "".join(f',"{key}":{value}' for key, value in wanted.items() if key not in present)
        end = self.members[-1].end
        return encoded(edited(self.text, [*edits, (end, end, additions)]))

    def _capture_fields(self) -> dict[str, str]:
        """What is not asked for yet. `top_logprobs` without `logprobs` stays the error that vLLM makes of it."""
        if self.wants_logprobs:
            return {"return_token_ids": "true"}
        if self.body.get("top_logprobs"):
            return {}
        return _CAPTURE_FIELDS


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def parse_chat_request(raw: bytes, *, max_choices: int) -> ChatRequest:
    """Raises InvalidRequestError, naming the field, for what we could not forward or record."""
    text = decoded(raw)
    try:
        found = document(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidRequestError(f"The body is not a JSON object: {reason}.") from error
    body = {member.key: member.value for member in found}
    _check(body)
    return ChatRequest(text, found, body, _num_choices(body.get("n"), max_choices))


def _check(body: dict[str, Any]) -> None:
    if "messages" not in body:
        raise InvalidRequestError("'messages' is missing: send a list of messages.", param="messages")
    if not isinstance(body["messages"], list):
        raise InvalidRequestError("'messages' must be a list of messages.", param="messages")
    if not isinstance(body.get("model"), str | None):
        raise InvalidRequestError("'model' must be a string.", param="model")


def _num_choices(n: Any, max_choices: int) -> int:
    if n is None:
        return 1
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= max_choices:
        raise InvalidRequestError(f"'n' must be an integer from 1 to {max_choices}.", param="n")
    return n
