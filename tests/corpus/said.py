"""What the choices of a recorded chat or completion said: the one thing that streams and whole replies must agree on."""

from dataclasses import dataclass, field
from typing import Any

from tests.corpus.recording import Recorded


@dataclass
class Said:
    text: str = ""
    ids: list[int] = field(default_factory=list)
    sampling_logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: Any = None


def said(recorded: Recorded) -> dict[int, Said]:
    """By choice."""
    bodies = recorded.events()[:-1] if recorded.asked.is_streamed else [recorded.json()]
    found: dict[int, Said] = {}
    for choice in (choice for body in bodies for choice in body["choices"]):
        so_far = found.setdefault(choice["index"], Said())
        so_far.text += _text(choice)
        so_far.ids += choice.get("token_ids") or []
        so_far.sampling_logprobs += _logprobs(choice["logprobs"] or {})
        so_far.finish_reason = choice["finish_reason"]
        so_far.stop_reason = choice.get("stop_reason")
    return found


def _text(choice: dict[str, Any]) -> str:
    message = choice.get("message") or choice.get("delta") or choice
    return message.get("content") or message.get("text") or ""


def _logprobs(logprobs: dict[str, Any]) -> list[float]:
    if "token_logprobs" in logprobs:
        return [*logprobs["token_logprobs"]]
    return [token["logprob"] for token in logprobs.get("content") or ()]
