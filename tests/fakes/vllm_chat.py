"""POST /v1/chat/completions of the fake: whole and streamed, key for key as vLLM 0.32 writes it."""

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.vllm_errors import FakeError
from tests.fakes.vllm_tokens import END_ID, Token, checksum, prompt_ids_of, token_at

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm

FINGERPRINT = "vllm-0.32.0-b8c5b1ff"


class Generation:
    """Everything a reply is made of."""

    def __init__(self, body: dict[str, Any], model: str, request_id: str | None) -> None:
        self.body, self.model = body, model
        self.prompt_ids = prompt_ids_of(body["messages"])
        self.max_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or 4
        self.reply_id = f"chatcmpl-{request_id or f'{checksum(body):016x}'}"
        self.choices = [self._choice(k) for k in range(body.get("n") or 1)]

    def _choice(self, k: int) -> tuple[list[Token], str, str | None]:
        """Tokens, finish reason, stop reason. A stop string ends the choice with the token that completes it."""
        stop = self.body.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        tokens: list[Token] = []
        for i in range(self.max_tokens):
            tokens.append(token_at(self.model, self.prompt_ids, self.body.get("seed"), k, i))
            text = "".join(token.text for token in tokens)
            for text_stop in stops:
                if text_stop in text:
                    return tokens, "stop", text_stop
        if self.body.get("ignore_eos") is False:  # our switch for an answer that ends by itself
            return [*tokens, Token(END_ID, "", -0.25)], "stop", None
        return tokens, "length", None

    def visible(self, tokens: list[Token], stop_reason: str | None) -> str:
        text = "".join(token.text for token in tokens)
        return text[: text.index(stop_reason)] if stop_reason else text

    def logprobs(self, tokens: list[Token]) -> dict[str, Any] | None:
        if not self.body.get("logprobs"):
            return None
        top = self.body.get("top_logprobs") or 0
        return {"content": [token.as_logprob(top, self.model) for token in tokens]}

    def ids(self, values: list[int]) -> list[int] | None:
        return values if self.body.get("return_token_ids") else None

    def usage(self, num_tokens: int | None = None) -> dict[str, Any]:
        made = sum(len(tokens) for tokens, _, _ in self.choices) if num_tokens is None else num_tokens
        prompt = len(self.prompt_ids)
        return {"prompt_tokens": prompt, "total_tokens": prompt + made, "completion_tokens": made}


def check(body: dict[str, Any]) -> None:
    if "messages" not in body:
        detail = "{'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': '<dict>'}"
        raise FakeError(400, f"1 validation error:\n  {detail}", "Bad Request", "body.messages")
    if not body["messages"]:
        text = "Cannot apply chat template to an empty conversation. Provide at least one message."
        raise FakeError(400, text)
    temperature = body.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
        text = f"temperature must be non-negative, got {float(temperature)}."
        raise FakeError(400, text, param="temperature")
    if temperature == 0 and (body.get("n") or 1) > 1:
        raise FakeError(400, f"n must be 1 when using greedy sampling, got {body['n']}.")
    if body.get("top_logprobs") and not body.get("logprobs"):
        raise FakeError(
            400, "when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs"
        )
    if any(message.get("content") == [] for message in body["messages"] if isinstance(message, dict)):
        raise FakeError(400, "1 validation error: messages.content is empty", "Bad Request", "messages")


async def answer(fake: "FakeVllm", request: web.Request) -> web.StreamResponse:
    faults = fake.faults
    body = json.loads(await request.read())
    if faults.hang_before_reply:
        await asyncio.sleep(3600)
    if faults.status is not None:
        return web.Response(status=faults.status, body=faults.raw_body, content_type=faults.content_type)
    check(body)
    generation = Generation(body, fake.checked_model(body), request.headers.get("X-Request-Id"))
    if faults.answer_as:
        generation.model = faults.answer_as
    if body.get("stream") or faults.raw_chunks is not None:
        return await _stream(fake, request, generation)
    await asyncio.sleep(faults.reply_seconds)
    response = web.Response(
        body=faults.raw_body or dumps(whole(generation)).encode(), content_type=faults.content_type
    )
    if faults.content_encoding:
        response.enable_compression(web.ContentCoding(faults.content_encoding))
    return response


def dumps(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def whole(generation: Generation) -> dict[str, Any]:
    nulls = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
    choices = [
        {
            "index": k,
            "message": {"role": "assistant", "content": generation.visible(tokens, stop), **nulls},
            "logprobs": generation.logprobs(tokens),
            "finish_reason": finish,
            "stop_reason": stop,
            "token_ids": generation.ids([token.id for token in tokens]),
            "routed_experts": None,
        }
        for k, (tokens, finish, stop) in enumerate(generation.choices)
    ]
    details = {"prompt_tokens_details": None, "completion_tokens_details": None}
    return {
        "id": generation.reply_id,
        "object": "chat.completion",
        "created": 1796016627,
        "model": generation.model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": {**generation.usage(), **details},
        "prompt_logprobs": None,
        "prompt_token_ids": generation.ids(generation.prompt_ids),
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def events(generation: Generation) -> list[str]:
    """The data of each event, in vLLM's order: roles, then the choices' tokens in turn, then usage."""
    options = generation.body.get("stream_options") or {}
    has_usage = bool(options.get("include_usage"))
    is_continuous = has_usage and bool(options.get("continuous_usage_stats"))
    head = {
        "id": generation.reply_id,
        "object": "chat.completion.chunk",
        "created": 1796016642,
        "model": generation.model,
    }
    made: list[dict[str, Any]] = []
    for k in range(len(generation.choices)):
        delta = {"role": "assistant", "content": ""}
        choice = {"index": k, "delta": delta, "logprobs": None, "finish_reason": None}
        usage = {"usage": generation.usage(0)} if is_continuous else {}
        prompt = {"prompt_token_ids": generation.ids(generation.prompt_ids), "prompt_text": None}
        made.append({**head, "choices": [choice], **usage, **prompt})
    for i in range(max(len(tokens) for tokens, _, _ in generation.choices)):
        for k, (tokens, _, _) in enumerate(generation.choices):
            if i < len(tokens):
                made.append({**head, **_token_event(generation, k, i, is_continuous, has_usage)})
    if has_usage:
        made.append({**head, "choices": [], "usage": generation.usage(), "system_fingerprint": FINGERPRINT})
    return [dumps(event) for event in made]


def _token_event(
    generation: Generation, k: int, i: int, is_continuous: bool, has_usage: bool
) -> dict[str, Any]:
    tokens, finish, stop = generation.choices[k]
    is_last = i == len(tokens) - 1
    text = generation.visible(tokens[: i + 1], None)
    limit = len(generation.visible(tokens, stop))
    begun = len(generation.visible(tokens[:i], None))
    choice: dict[str, Any] = {
        "index": k,
        "delta": {"content": text[begun : min(len(text), limit)]},
        "logprobs": generation.logprobs([tokens[i]]),
        "finish_reason": finish if is_last else None,
    }
    if is_last:
        choice["stop_reason"] = stop
    choice["token_ids"] = generation.ids([tokens[i].id])
    event: dict[str, Any] = {"choices": [choice]}
    if is_continuous:
        event["usage"] = generation.usage(i + 1)
    if is_last and not has_usage:
        event["system_fingerprint"] = FINGERPRINT
    return event


async def _stream(fake: "FakeVllm", request: web.Request, generation: Generation) -> web.StreamResponse:
    faults = fake.faults
    chunks = faults.raw_chunks
    if chunks is None:
        chunks = [f"data: {event}\n\n".encode() for event in [*events(generation), "[DONE]"]]
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for i, chunk in enumerate(chunks):
        if faults.die_after_events is not None and i >= faults.die_after_events:
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write(chunk)
        fake.num_chunks_sent += 1
        await asyncio.sleep(faults.event_seconds)
    await response.write_eof()
    return response
