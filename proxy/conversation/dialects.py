"""The messages of a request and of its answer as they count, for each route that has conversations.

Invariant: nulls, empty lists, reasoning, annotations and unknown members change nothing, and nothing raises, whatever
the client sent. Arguments of tool calls count as JSON values, because some clients parse them and write them anew.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

from proxy.conversation.digest import Message
from proxy.reply.choice import objects
from proxy.surface.media import MEDIA_TYPES

Json = Mapping[str, Any]
_MAX_KNOWN_LENGTH = 4096
_PLAIN = 2  # members: role and content
_TEXTS = frozenset({"text", "input_text", "output_text"})


@dataclass(frozen=True, slots=True)
class Dialect:
    asked: Callable[[Json], Iterable[Message]]  # of the request's body
    answered: Callable[[Json], Iterable[Message]]  # of a choice's response, as it is recorded


def _chat(body: Json) -> Iterator[Message]:
    for message in objects(body.get("messages")):
        yield _chat_message(message)


def _chat_message(message: Json) -> Message:
    role, content = message.get("role"), message.get("content")
    if len(message) == _PLAIN and isinstance(role, str) and isinstance(content, str):
        return Message(role.strip(), content)  # most messages: nothing else can stand there
    role = _text(role)
    text, marks = _content(content)
    calls = objects(message.get("tool_calls"))
    if isinstance(old := message.get("function_call"), dict):
        calls.append({"function": old})
    for call in calls:
        function = call.get("function")
        if isinstance(function, dict):
            marks += _call(call.get("id"), function.get("name"), function.get("arguments"))
    if id_ := _text(message.get("tool_call_id")):
        marks += ("result", id_)
    if role != "assistant" and (name := _text(message.get("name"))):  # some clients name our answers
        marks += ("name", name)
    return Message(role, text, tuple(marks))


def _anthropic(body: Json) -> Iterator[Message]:
    text, _ = _content(body.get("system"))
    if text:
        yield Message("system", text)
    for message in objects(body.get("messages")):
        yield _blocks(_text(message.get("role")), message.get("content"))


def _blocks(role: str, content: Any) -> Message:
    text, marks = _content(content)
    for block in objects(content):
        if block.get("type") == "tool_use":
            raw = block.get("partial_json")  # a stream's, as the model wrote it
            marks += _call(block.get("id"), block.get("name"), block.get("input") if raw is None else raw)
        elif block.get("type") == "tool_result":
            result, media = _content(block.get("content"))
            marks += ("result", _text(block.get("tool_use_id")), result.strip(), *media)
    return Message(role, text, tuple(marks))


def _responses(body: Json) -> Iterator[Message]:
    text, _ = _content(body.get("instructions"))
    if text:
        yield Message("system", text)
    given = body.get("input")
    yield from [Message("user", given)] if isinstance(given, str) else _items(given)


def _items(items: Any) -> Iterator[Message]:
    for item in objects(items):
        kind = item.get("type") or "message"
        if kind == "message":
            text, marks = _content(item.get("content"))
            yield Message(_text(item.get("role")), text, tuple(marks))
        elif kind == "function_call":
            marks = _call(item.get("call_id"), item.get("name"), item.get("arguments"))
            yield Message("assistant", "", tuple(marks))
        elif kind == "function_call_output":
            text, marks = _content(item.get("output"))
            yield Message("tool", text, ("result", _text(item.get("call_id")), *marks))


def _call(id_: Any, name: Any, arguments: Any) -> list[str]:
    return ["call", _text(id_), _text(name), _as_value(arguments)]


def _content(content: Any) -> tuple[str, list[str]]:
    """Its text, and what else of it counts."""
    if isinstance(content, str):
        return content, []
    parts = objects(content)
    kinds = [_text(part.get("type", "text")) for part in parts]
    media = [_as_value(part) for part, kind in zip(parts, kinds, strict=True) if kind in MEDIA_TYPES]
    texts = [part.get("text") for part, kind in zip(parts, kinds, strict=True) if kind in _TEXTS]
    return "".join(filter(_is_text, texts)), ["media", *media] if media else []


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str)


def _as_value(given: Any) -> str:
    """JSON text, the same for the same value; what is no JSON stays the text that it is."""
    if isinstance(given, str) and len(given) <= _MAX_KNOWN_LENGTH:
        return _known_value(given)  # an agent repeats its calls with each of its turns
    return _value_of(given)


def _value_of(given: Any) -> str:
    try:
        value = json.loads(given or "{}") if isinstance(given, str) else given or {}
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return str(given).strip()


_known_value = lru_cache(1024)(_value_of)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


DIALECTS = {
    "/v1/chat/completions": Dialect(_chat, lambda response: [_chat_message(response)]),
    "/v1/messages": Dialect(_anthropic, lambda response: [_blocks("assistant", response.get("blocks"))]),
    "/v1/responses": Dialect(_responses, lambda response: _items(response.get("output"))),
}
