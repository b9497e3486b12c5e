"""POST /v1/responses of the fake, key for key as vLLM 0.32 writes it.

As there: ids only in `input_messages`/`output_messages` and, streamed, only in the last event; function calls have
no logprobs; a stream brings no logprob of a token without text (the end token), an unstreamed reply does.
"""

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.corpus.scenario import LOGPROBS
from tests.fakes.vllm_errors import FakeError
from tests.fakes.vllm_stream import fault_before_reply, named_frames, send_stream, send_whole
from tests.fakes.vllm_tokens import Choice, Token, checksum, choice_of, prompt_ids_of

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm

ARGUMENTS = ('{"hue"', ': "red"}')


class Response:
    """Everything a reply is made of."""

    def __init__(self, body: dict[str, Any], model: str) -> None:
        self.body, self.model = body, model
        self.prompt_ids = prompt_ids_of([body.get("instructions"), body["input"]])
        count = body.get("max_output_tokens") or 4
        self.choice = choice_of(model, self.prompt_ids, body, 0, max_tokens=count, stop=body.get("stop"))
        self.reply_id = body.get("request_id") or f"resp_{checksum(body):016x}"
        self.item_id = f"{checksum(self.reply_id):016x}"
        self.wants_logprobs = LOGPROBS in (body.get("include") or ())

    @property
    def calls_tool(self) -> bool:
        """Only when it must."""
        return self.body.get("tool_choice") == "required" or isinstance(self.body.get("tool_choice"), dict)

    def logprobs(self, tokens: list[Token], *, has_bytes: bool = True) -> list[dict[str, Any]]:
        top = self.body.get("top_logprobs") or 0
        entries = [token.as_logprob(top, self.model) for token in tokens]
        if has_bytes:
            return [_ordered(entry) for entry in entries]
        return [_without_bytes(entry) for entry in entries]

    def item(self, *, is_streamed: bool) -> dict[str, Any]:
        if self.calls_tool:
            return self.call("".join(ARGUMENTS), "completed")
        tokens = [token for token in self.choice.tokens if token.text or not is_streamed]
        return self.message([self.part(self.choice.text, tokens)], "completed")

    def part(self, text: str, tokens: list[Token] | None) -> dict[str, Any]:
        found = None if tokens is None or not self.wants_logprobs else self.logprobs(tokens)
        return {"annotations": [], "text": text, "type": "output_text", "logprobs": found}

    def message(self, content: list[Any], status: str) -> dict[str, Any]:
        head = {"id": f"msg_{self.item_id}", "content": content, "role": "assistant", "status": status}
        return {**head, "type": "message", "phase": None}

    def call(self, arguments: str, status: str) -> dict[str, Any]:
        name = self.body["tools"][0]["name"]
        head = {"arguments": arguments, "call_id": f"chatcmpl-tool-{self.item_id}", "name": name}
        nulls = {"async": None, "caller": None, "namespace": None}
        return {**head, "type": "function_call", "id": f"fc_{self.item_id}", **nulls, "status": status}


def _ordered(entry: dict[str, Any]) -> dict[str, Any]:
    """Here the bytes stand before the number."""
    found = {key: entry[key] for key in ("token", "bytes", "logprob")}
    return (
        found
        if "top_logprobs" not in entry
        else {**found, "top_logprobs": [*map(_ordered, entry["top_logprobs"])]}
    )


def _without_bytes(entry: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in _ordered(entry).items() if key != "bytes"}
    if "top_logprobs" in found:
        found["top_logprobs"] = [*map(_without_bytes, found["top_logprobs"])]
    return found


def _echoed(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool with vLLM's order and its nulls."""
    head = {key: tool.get(key) for key in ("name", "parameters", "strict", "type")}
    nulls = dict.fromkeys(("allowed_callers", "async", "defer_loading"))
    return {**head, **nulls, "description": tool.get("description"), "output_schema": None}


async def answer(fake: "FakeVllm", request: web.Request) -> web.StreamResponse:
    if (fault := await fault_before_reply(fake)) is not None:
        return fault
    body = json.loads(await request.read())
    _check(body)
    response = Response(body, fake.checked_model(body))
    if body.get("stream"):
        return await send_stream(fake, request, named_frames(_events(response)))
    return await send_whole(fake, _finished(response, is_streamed=False))


def _check(body: dict[str, Any]) -> None:
    if "input" not in body:
        detail = {"type": "missing", "loc": "body.input", "msg": "Field required"}
        raise FakeError(400, f"1 validation error:\n  {detail}", "Bad Request", "body.input")
    if (previous := body.get("previous_response_id")) is not None:
        text = f"Response with id '{previous}' not found."
        raise FakeError(404, text, "invalid_request_error", "response_id")
    temperature = body.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
        text = f"temperature must be non-negative, got {float(temperature)}."
        raise FakeError(400, text, param="temperature")


def _whole(response: Response, status: str, output: list[Any], **filled: Any) -> dict[str, Any]:
    body = response.body
    nulls = dict.fromkeys(("max_tool_calls", "previous_response_id", "prompt", "reasoning"))
    is_cut = filled.pop("is_cut", False)
    return {
        "id": response.reply_id, "created_at": 1796016646,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": body.get("instructions"), "metadata": body.get("metadata"), "model": response.model,
        "object": "response", "output": output, "parallel_tool_calls": True,
        "temperature": body.get("temperature", 1.0), "tool_choice": body.get("tool_choice", "none"),
        "tools": [*map(_echoed, body.get("tools", []))], "top_p": 1.0, "background": False,
        "max_output_tokens": body.get("max_output_tokens", 4), **nulls, "service_tier": "auto", "status": status,
        "text": body.get("text"), "top_logprobs": (body.get("top_logprobs") or 0) if response.wants_logprobs else None,
        "truncation": "disabled", "usage": filled.get("usage"), "user": body.get("user"),
        "presence_penalty": 0.0, "frequency_penalty": 0.0, "kv_transfer_params": None, "ec_transfer_params": None,
        "input_messages": filled.get("input_messages"), "output_messages": filled.get("output_messages"),
    }  # fmt: skip


def _finished(response: Response, *, is_streamed: bool) -> dict[str, Any]:
    choice, is_cut = response.choice, response.choice.finish == "length" and not response.calls_tool
    messages = {}
    if response.body.get("enable_response_messages"):
        messages["input_messages"] = [_raw("the prompt", response.prompt_ids)]
        messages["output_messages"] = [_raw(choice.text, choice.ids)]
    status = "incomplete" if is_cut else "completed"
    output = [response.item(is_streamed=is_streamed)]
    usage = _usage(len(response.prompt_ids), choice)
    return _whole(response, status, output, is_cut=is_cut, usage=usage, **messages)


def _raw(text: str, ids: list[int]) -> dict[str, Any]:
    return {"message": text, "tokens": ids, "type": "raw_message_tokens"}


def _usage(prompt: int, choice: Choice) -> dict[str, Any]:
    made = len(choice.tokens)
    turns = {"input_tokens_per_turn": [], "cached_tokens_per_turn": []}
    made_turns = {"output_tokens_per_turn": [], "tool_output_tokens_per_turn": []}
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0, **turns},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0, "tool_output_tokens": 0, **made_turns},
        "total_tokens": prompt + made,
    }


def _events(response: Response) -> list[dict[str, Any]]:
    begun = _whole(response, "in_progress", [])
    made = [
        {"response": begun, "type": "response.created"},
        {"response": begun, "type": "response.in_progress"},
        *(_call_events(response) if response.calls_tool else _text_events(response)),
        {"response": _finished(response, is_streamed=True), "type": "response.completed"},
    ]
    return [_numbered(event, number) for number, event in enumerate(made)]


def _numbered(event: dict[str, Any], number: int) -> dict[str, Any]:
    """The number stands before `text`, where there is one, else before the type."""
    before = "text" if "text" in event else "type"
    pairs = ([("sequence_number", number)] * (key == before) + [(key, value)] for key, value in event.items())
    return dict(pair for some in pairs for pair in some)


def _call_events(response: Response) -> list[dict[str, Any]]:
    at, name = {"item_id": f"fc_{response.item_id}", "output_index": 0}, response.body["tools"][0]["name"]
    kind = "response.function_call_arguments"
    return [
        {"item": response.call("", "in_progress"), "output_index": 0, "type": "response.output_item.added"},
        *({"delta": part, **at, "type": f"{kind}.delta"} for part in ARGUMENTS),
        {"arguments": "".join(ARGUMENTS), **at, "type": f"{kind}.done", "name": name},
        {"item": response.item(is_streamed=True), "output_index": 0, "type": "response.output_item.done"},
    ]  # fmt: skip


def _text_events(response: Response) -> list[dict[str, Any]]:
    choice, at = response.choice, {"content_index": 0}
    place = {"item_id": f"msg_{response.item_id}", "output_index": 0}
    item = response.item(is_streamed=True)
    empty = {**response.part("", None), "logprobs": []}
    deltas = [
        {**at, "delta": piece, "item_id": place["item_id"],
         "logprobs": response.logprobs([token], has_bytes=False) if response.wants_logprobs else [],
         "output_index": 0, "type": "response.output_text.delta"}
        for piece, token in zip(choice.pieces(), choice.tokens, strict=True) if piece
    ]  # fmt: skip
    return [
        {"item": response.message([], "in_progress"), "output_index": 0, "type": "response.output_item.added"},
        {**at, **place, "part": empty, "type": "response.content_part.added"},
        *deltas,
        {**at, "item_id": place["item_id"], "logprobs": [], "output_index": 0, "text": choice.text, "type": "response.output_text.done"},
        {**at, **place, "part": item["content"][0], "type": "response.content_part.done"},
        {"item": item, "output_index": 0, "type": "response.output_item.done"},
    ]  # fmt: skip
