"""Anthropic's shapes: messages, whole and streamed."""

from typing import Any


def _message(
    body: dict[str, Any], content: list[Any], stop_reason: str | None, num_output: int
) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": num_output}
    return {
        "id": "msg_fake", "type": "message", "role": "assistant", "model": f"{body['model']}-20260101",
        "content": content, "stop_reason": stop_reason, "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def whole(path: str, body: dict[str, Any]) -> dict[str, Any]:
    del path
    if body.get("tools"):
        use = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 2}}
        return _message(body, [use], "tool_use", 2)
    return _message(body, [{"type": "text", "text": "Four."}], "end_turn", 2)


def events(path: str, body: dict[str, Any]) -> list[tuple[str | None, Any]]:
    del path
    told: list[dict[str, Any]] = [{"type": "message_start", "message": _message(body, [], None, 1)}]
    told += [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
    told += [{"type": "ping"}]
    told += [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        for piece in ("Fo", "ur", ".")
    ]
    told += [{"type": "content_block_stop", "index": 0}]
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    told += [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in told]
