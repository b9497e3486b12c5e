"""A request of the data plane as far as we depend on it, and as it goes to vLLM: edited by span, never written again.

Invariant: the bytes that go upstream are the client's, but for `model`, what capture needs, and fields that may not pass.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.errors import InvalidRequestError
from proxy.splice import Edit, Member, cuts, decoded, document, edited, encoded

_AFFINITY_MESSAGES = 4
_AFFINITY_LENGTH = 4096
_HUGE = 1 << 63  # beyond it Postgres has no bigint


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a reply the client wants to see. Everything else that capture asked for is removed again (I1)."""

    logprobs: bool = False
    token_ids: bool = False
    prompt_text: bool = False
    usage: bool = True  # in a stream; a whole reply always holds its usage


@dataclass(frozen=True, slots=True)
class Document:
    """A body that is one JSON object: its text, its members by span, its values."""

    raw: bytes
    text: str
    members: list[Member]
    values: dict[str, Any]

    @classmethod
    def parse(cls, raw: bytes) -> "Document":
        """Raises InvalidRequestError for anything but a JSON object."""
        text = decoded(raw)
        try:
            found = document(text)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InvalidRequestError(f"The body is not a JSON object: {reason}.") from error
        return cls(raw, text, found, {member.key: member.value for member in found})

    def number(self, name: str, default: float | None = None) -> float | None:
        """A sampling parameter as vLLM will read it ("0.2" and true are numbers to pydantic); else `default`."""
        value = self.values.get(name)
        try:
            number = float(value) if isinstance(value, int | float | str) else math.nan
        except (ValueError, OverflowError):
            return default
        return number if abs(number) < _HUGE else default

    def integer(self, name: str) -> int | None:
        value = self.values.get(name)
        is_storable = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _HUGE
        return value if is_storable else None

    def rewritten(self, members: Mapping[str, str], doomed: frozenset[str] = frozenset()) -> bytes:
        """The bytes with these members set to these JSON texts (added at the end where they are missing), and the
        doomed ones cut.
        """
        present = {member.key for member in self.members}
        edits: list[Edit] = [
            (m.value_start, m.end, members[m.key])
            for m in self.members
            if m.key in members and m.key not in doomed
        ]
        if doomed & present:
            edits += cuts(self.members, doomed)
        missing = "".join(f',"{key}":{value}' for key, value in members.items() if key not in present)
        end = self.members[-1].end
        if present <= doomed:
            missing = missing[1:]
        return encoded(edited(self.text, [*edits, (end, end, missing)]))


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request, understood. `prompt_key` names the member that the ledger keeps as the row's messages.

    Example: 3 prompts with n = 2 → num_choices 6, num_prompts 3.
    """

    document: Document
    is_streamed: bool
    asked: Asked
    prompt_key: str | None = None
    num_choices: int = 1
    num_prompts: int = 1
    additions: Mapping[str, str] = field(default_factory=dict)  # what capture sets: member → JSON text
    reply_id_field: str | None = None  # where the route takes the reply's id in the body (`resp_…`)
    dropped: frozenset[str] = frozenset()  # members that do not pass
    max_tokens: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        return self.document.values

    @property
    def requested_model(self) -> str:
        return self.body.get("model") or ""

    @property
    def messages(self) -> list[Any] | None:
        messages = self.body.get(self.prompt_key) if self.prompt_key else None
        return messages if isinstance(messages, list) else None

    @property
    def affinity(self) -> bytes:
        """What all turns of a conversation and all members of a group begin with: up to the first word of a user.

        Requests that share it find their prefix in the same replica's cache.
        """
        parts: list[str] = []
        for message in (self.messages or [self.body.get("prompt") or self.body.get("input")])[
            :_AFFINITY_MESSAGES
        ]:
            content = message.get("content") if isinstance(message, dict) else message
            parts.append((content if isinstance(content, str) else repr(content))[:_AFFINITY_LENGTH])
            if isinstance(message, dict) and message.get("role") == "user":
                break
        return "\n".join(parts).encode(errors="replace")

    @property
    def sha256(self) -> str:
        """Of the body as it arrived: an SDK's retry has the same."""
        return hashlib.sha256(self.document.raw).hexdigest()

    def upstream_body(self, model: str, call_id: str, *, is_captured: bool) -> bytes:
        wanted = {"model": f'"{_escaped(model)}"'}
        if is_captured:
            wanted |= self.additions
        if self.reply_id_field:
            wanted[self.reply_id_field] = f'"resp_{call_id}"'
        return self.document.rewritten(wanted, self.dropped - wanted.keys())


def checked_model(values: Mapping[str, Any]) -> None:
    """Raises InvalidRequestError."""
    if not isinstance(values.get("model"), str | None):
        raise InvalidRequestError("'model' must be a string.", param="model")


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
