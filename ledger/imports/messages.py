"""The messages of a chat log's line, checked: a question that is not there, or a turn that says nothing, is a bad line.

What was asked may stand as messages, or as a text, which is one turn of the user.
"""

from collections.abc import Mapping
from typing import Any

from ledger.imports.lines import BadLineError

_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_SAID = ("content", "tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning")
_ASKING = ("messages", "prompt", "request", "input", "body")


def messages_of(asked: object) -> list[Any] | None:
    """Of `messages` or `prompt`; None where there is none. Raises BadLineError."""
    if asked is None or asked in ("", []):
        return None
    if isinstance(asked, str):
        return [{"role": "user", "content": asked}]
    if not isinstance(asked, list) or not all(isinstance(one, dict) and "role" in one for one in asked):
        raise BadLineError("'messages' is no list of messages with a role")
    for number, message in enumerate(asked, 1):
        _check(message, f"message {number}")
    return asked


def answer_of(message: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    """What choice `index` says, as a turn of the assistant. Raises BadLineError."""
    if message.get("role", "assistant") != "assistant":
        raise BadLineError(f"choice {index} is by {message['role']!r}, not by the assistant")
    _check({**message, "role": "assistant"}, f"choice {index}")
    return message


def has_no_question(line: Mapping[str, Any]) -> bool:
    """By its nature: a batch's output, or a completion alone. Other shapes without a question are bad lines."""
    if any(line.get(name) for name in _ASKING):
        return False
    return "choices" in line or ("custom_id" in line and isinstance(line.get("response"), dict))


def _check(message: Mapping[str, Any], name: str) -> None:
    role = message["role"]
    if role not in _ROLES:
        raise BadLineError(f"{name} has the unknown role {role!r}: it may be {', '.join(sorted(_ROLES))}")
    if role == "assistant" and all(message.get(said) in (None, []) for said in _SAID):
        raise BadLineError(f"{name} is the assistant's and has neither content nor tool calls")
