"""A request of the data plane as far as we depend on it, and as it goes to vLLM: edited by span, never written again.

Invariant: the bytes that go upstream are the client's, but for `model`, what capture needs, and fields that may not pass.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ledger.frozen import dataclass
from proxy.errors import InvalidRequestError
from proxy.surface.document import Document

_AFFINITY_MESSAGES = 4
_AFFINITY_LENGTH = 4096
_AFFINITY_PARTS = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a reply the client wants to see. Everything else that capture asked for is removed again (I1)."""

    logprobs: bool = False
    token_ids: bool = False
    prompt_text: bool = False
    usage: bool = True  # in a stream; a whole reply always holds its usage


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
    can_teach: bool = False  # vLLM can tell an id and a logprob for each token of the answer

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
        begun: list[str] = []
        messages = self.messages or [self.body.get("prompt") or self.body.get("input")]
        for message in messages[:_AFFINITY_MESSAGES]:
            begun.append(_beginning(message.get("content") if isinstance(message, dict) else message))
            if isinstance(message, dict) and message.get("role") == "user":
                break
        return "\n".join(begun).encode(errors="replace")

    @property
    def sha256(self) -> str:
        """Of the body as it arrived: an SDK's retry has the same."""
        return hashlib.sha256(self.document.raw).hexdigest()

    def upstream_body(
        self, model: str, call_id: str, *, is_captured: bool, sampling: Mapping[str, str | None] | None = None
    ) -> bytes:
        """`sampling`: members that are set to a JSON text, or cut (None), to explore."""
        wanted = {"model": f'"{_escaped(model)}"'}
        if is_captured:
            wanted |= self.additions
        if self.reply_id_field:
            wanted[self.reply_id_field] = f'"resp_{call_id}"'
        dropped = self.dropped - wanted.keys()
        if sampling:
            wanted |= {name: text for name, text in sampling.items() if text is not None}
            dropped |= sampling.keys() - wanted.keys()
        return self.document.rewritten(wanted, dropped)


def _beginning(content: Any) -> str:
    """Of a text, of a list of parts, or of token ids: what is long is never copied whole."""
    if isinstance(content, str):
        return content[:_AFFINITY_LENGTH]
    if not isinstance(content, list):
        return str(content)[:_AFFINITY_LENGTH]
    return "\n".join(
        str(part.get("text", ""))[:_AFFINITY_LENGTH]
        if isinstance(part, dict)
        else str(part)[:_AFFINITY_LENGTH]
        for part in content[:_AFFINITY_PARTS]
    )


def checked_model(values: Mapping[str, Any]) -> None:
    """Raises InvalidRequestError."""
    if not isinstance(values.get("model"), str | None):
        raise InvalidRequestError("'model' must be a string.", param="model")


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
