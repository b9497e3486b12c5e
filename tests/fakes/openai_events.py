"""OpenAI's shapes: chat, legacy completions, responses, embeddings. Its model names carry a date."""

from typing import Any

_USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
_PIECES = ("Fo", "ur", ".")


def whole(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path.endswith("/embeddings"):
        data = [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}]
        return {
            "object": "list",
            "data": data,
            "model": _model(body),
            "usage": {"prompt_tokens": 3, "total_tokens": 3},
        }
    if path.endswith("/responses"):
        return _response(body, "completed")
    if path.endswith("/chat/completions"):
        choices = [_chat_choice(k, body) for k in range(body.get("n") or 1)]
        return {**_head("chatcmpl-fake", "chat.completion", body), "choices": choices, "usage": _USAGE}
    choice = {"index": 0, "text": "Four.", "logprobs": None, "finish_reason": body["finish_reason"]}
    return {**_head("cmpl-fake", "text_completion", body), "choices": [choice], "usage": _USAGE}


def _chat_choice(index: int, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "Four.", "refusal": None, "annotations": []}
    if body.get("tools"):
        function = {"name": "add", "arguments": '{"a": 2,  "b": 2}'}
        message |= {
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
    finish_reason = "tool_calls" if body.get("tools") else body["finish_reason"]
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish_reason}


def events(path: str, body: dict[str, Any]) -> list[tuple[str | None, Any]]:
    if path.endswith("/responses"):
        return _response_events(body)
    if path.endswith("/chat/completions"):
        head = _head("chatcmpl-fake", "chat.completion.chunk", body)
        deltas: list[dict[str, Any]] = [
            {"role": "assistant", "content": ""},
            *({"content": p} for p in _PIECES),
        ]
        chunks = [_chunk(head, {"delta": delta, "finish_reason": None}) for delta in deltas]
        chunks.append(_chunk(head, {"delta": {}, "finish_reason": body["finish_reason"]}))
    else:
        head = _head("cmpl-fake", "text_completion", body)
        chunks = [_chunk(head, {"text": p, "finish_reason": None}) for p in _PIECES]
        chunks.append(_chunk(head, {"text": "", "finish_reason": body["finish_reason"]}))
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": _USAGE})
    return [*((None, chunk) for chunk in chunks), (None, "[DONE]")]


def _chunk(head: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "logprobs": None, **choice}]}


def _model(body: dict[str, Any]) -> str:
    return f"{body['model']}-2026-01-01"


def _head(id_: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": id_,
        "object": kind,
        "created": 1700000000,
        "model": _model(body),
        "system_fingerprint": "fp_1",
    }


def _response(body: dict[str, Any], status: str) -> dict[str, Any]:
    text = {"type": "output_text", "text": "Four.", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [text]}
    usage = {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11,
    }  # fmt: skip
    is_over = status == "completed"
    return {
        "id": "resp_fake", "object": "response", "created_at": 1700000000, "status": status, "model": _model(body),
        "output": [item] if is_over else [], "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
        "top_p": 1.0, "usage": usage if is_over else None,
    }  # fmt: skip


def _response_events(body: dict[str, Any]) -> list[tuple[str | None, Any]]:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    told: list[dict[str, Any]] = [{"type": "response.created", "response": _response(body, "in_progress")}]
    told += [{"type": "response.output_text.delta", **place, "delta": p, "logprobs": []} for p in _PIECES]
    told += [{"type": "response.completed", "response": _response(body, "completed")}]
    return [(event["type"], {**event, "sequence_number": number}) for number, event in enumerate(told)]
