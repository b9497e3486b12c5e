"""POST /v1/messages of the fake: Anthropic's shapes as vLLM 0.32 writes them, without nulls, ids or logprobs."""

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.vllm_errors import FakeError
from tests.fakes.vllm_stream import fault_before_reply, named_frames, send_stream, send_whole
from tests.fakes.vllm_tokens import checksum, choice_of, prompt_ids_of

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm

STOP_REASONS = {"length": "max_tokens", "stop": "end_turn"}


class MessageError(FakeError):
    """What vLLM tells in Anthropic's own envelope."""

    def response(self) -> web.Response:
        error = {"type": self.kind, "message": str(self)}
        return web.json_response({"type": "error", "error": error}, status=self.status)


class Message:
    def __init__(self, body: dict[str, Any], model: str, request_id: str | None) -> None:
        self.body, self.model = body, model
        self.prompt_ids = prompt_ids_of([body.get("system"), body["messages"]])
        self.choice = choice_of(
            model, self.prompt_ids, body, 0, max_tokens=body["max_tokens"], stop=body.get("stop_sequences")
        )
        self.reply_id = f"chatcmpl-{request_id or f'{checksum(body):016x}'}"
        self.tool = _forced_tool(body)
        self.stop_reason = "stop_sequence" if self.choice.stop else STOP_REASONS[self.choice.finish]
        if self.tool:
            self.stop_reason = "tool_use"

    def usage(self, num_tokens: int) -> dict[str, int]:
        return {"input_tokens": len(self.prompt_ids), "output_tokens": num_tokens}


def _forced_tool(body: dict[str, Any]) -> str | None:
    """The name of the tool that is called: only a choice of `any` or `tool` makes the fake call one."""
    choice = body.get("tool_choice") or {}
    if choice.get("type") not in ("any", "tool"):
        return None
    return str(choice.get("name") or body["tools"][0]["name"])


def _check(body: dict[str, Any]) -> None:
    for field in ("messages", "max_tokens"):
        if field not in body:
            detail = {"type": "missing", "loc": f"body.{field}", "msg": "Field required"}
            raise FakeError(400, f"1 validation error:\n  {detail}", "Bad Request", f"body.{field}")
    if body["max_tokens"] <= 0:
        text = "1 validation error:\n  {'type': 'value_error', 'loc': 'body.max_tokens', 'msg': 'Value error, max_tokens must be positive'}"
        raise FakeError(400, text, "Bad Request", "body.max_tokens")


async def answer(fake: "FakeVllm", request: web.Request) -> web.StreamResponse:
    if (fault := await fault_before_reply(fake)) is not None:
        return fault
    body = json.loads(await request.read())
    _check(body)
    message = Message(body, _checked_model(fake, body), request.headers.get("X-Request-Id"))
    if body.get("stream"):
        return await send_stream(fake, request, named_frames(_events(message)))
    return await send_whole(fake, _whole(message))


def _checked_model(fake: "FakeVllm", body: dict[str, Any]) -> str:
    try:
        return fake.checked_model(body)
    except FakeError as error:
        raise MessageError(error.status, str(error), error.kind) from error


async def count_tokens(fake: "FakeVllm", request: web.Request) -> web.Response:
    body = json.loads(await request.read())
    count = len(prompt_ids_of([body.get("system"), body["messages"]]))
    return web.json_response({"input_tokens": count, "context_management": {"original_input_tokens": count}})


def _block(message: Message) -> dict[str, Any]:
    if message.tool:
        return {"type": "tool_use", "id": f"chatcmpl-tool-{message.reply_id[-16:]}", "name": message.tool, "input": {"hue": "red"}}  # fmt: skip
    return {"type": "text", "text": message.choice.text}


def _whole(message: Message) -> dict[str, Any]:
    stopped = {"stop_sequence": message.choice.stop} if message.choice.stop else {}
    return {
        "id": message.reply_id,
        "type": "message",
        "role": "assistant",
        "content": [_block(message)],
        "model": message.model,
        "stop_reason": message.stop_reason,
        **stopped,
        "usage": message.usage(len(message.choice.tokens)),
    }


def _events(message: Message) -> list[dict[str, Any]]:
    head = {
        "id": message.reply_id,
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": message.model,
    }
    begun = {**head, "stop_reason": None, "stop_sequence": None, "usage": message.usage(0)}
    ended = {"stop_reason": message.stop_reason, "stop_sequence": message.choice.stop}
    return [
        {"type": "message_start", "message": begun},
        *_block_events(message),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": message.usage(len(message.choice.tokens))},
        {"type": "message_stop"},
    ]


def _block_events(message: Message) -> list[dict[str, Any]]:
    empty = {"input": {}} if message.tool else {"text": ""}
    started = {"type": "content_block_start", "content_block": {**_block(message), **empty}, "index": 0}
    if message.tool:
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in ('{"hue"', ': "red"}')]
    else:
        deltas = [{"type": "text_delta", "text": piece} for piece in message.choice.pieces() if piece]
    return [started, *({"type": "content_block_delta", "delta": delta, "index": 0} for delta in deltas)]
