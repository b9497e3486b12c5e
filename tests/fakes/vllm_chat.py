"""POST /v1/chat/completions of the fake: whole and streamed, key for key as vLLM 0.32 writes it."""

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.vllm_errors import FakeError
from tests.fakes.vllm_stream import data_frames, dumps, fault_before_reply, send_stream, send_whole
from tests.fakes.vllm_tokens import Token, checksum, choice_of, prompt_ids_of

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
        self.choices = [
            choice_of(model, self.prompt_ids, body, k, max_tokens=self.max_tokens, stop=body.get("stop"))
            for k in range(body.get("n") or 1)
        ]

    def logprobs(self, tokens: list[Token]) -> dict[str, Any] | None:
        if not self.body.get("logprobs"):
            return None
        top = self.body.get("top_logprobs") or 0
        return {"content": [token.as_logprob(top, self.model) for token in tokens]}

    def ids(self, values: list[int]) -> list[int] | None:
        return values if self.body.get("return_token_ids") else None

    def usage(self, num_tokens: int | None = None) -> dict[str, Any]:
        made = sum(len(choice.tokens) for choice in self.choices) if num_tokens is None else num_tokens
        prompt = len(self.prompt_ids)
        return {"prompt_tokens": prompt, "total_tokens": prompt + made, "completion_tokens": made}

    def running_usage(self, num_tokens: int) -> dict[str, Any]:
        return {**self.usage(num_tokens), "completion_tokens_details": None}


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


async def answer(fake: "FakeVllm", request: web.Request) -> web.StreamResponse:
    if (fault := await fault_before_reply(fake)) is not None:
        return fault
    body = json.loads(await request.read())
    check(body)
    generation = Generation(body, fake.checked_model(body), request.headers.get("X-Request-Id"))
    if fake.faults.answer_as:
        generation.model = fake.faults.answer_as
    if body.get("stream") or fake.faults.raw_chunks is not None:
        return await send_stream(fake, request, data_frames(events(generation)))
    return await send_whole(fake, whole(generation))


def whole(generation: Generation) -> dict[str, Any]:
    nulls = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
    choices = [
        {
            "index": k,
            "message": {"role": "assistant", "content": choice.text, **nulls},
            "logprobs": generation.logprobs(choice.tokens),
            "finish_reason": choice.finish,
            "stop_reason": choice.stop,
            "token_ids": generation.ids(choice.ids),
            "routed_experts": None,
        }
        for k, choice in enumerate(generation.choices)
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
        usage = {"usage": generation.running_usage(0)} if is_continuous else {}
        prompt = {"prompt_token_ids": generation.ids(generation.prompt_ids), "prompt_text": None}
        made.append({**head, "choices": [choice], **usage, **prompt})
    for i in range(max(len(choice.tokens) for choice in generation.choices)):
        for k, each in enumerate(generation.choices):
            if i < len(each.tokens):
                made.append({**head, **_token_event(generation, k, i, is_continuous, has_usage)})
    if has_usage:
        made.append({**head, "choices": [], "usage": generation.usage(), "system_fingerprint": FINGERPRINT})
    return [dumps(event) for event in made]


def _token_event(
    generation: Generation, k: int, i: int, is_continuous: bool, has_usage: bool
) -> dict[str, Any]:
    made = generation.choices[k]
    is_last = i == len(made.tokens) - 1
    choice: dict[str, Any] = {
        "index": k,
        "delta": {"content": made.pieces()[i]},
        "logprobs": generation.logprobs([made.tokens[i]]),
        "finish_reason": made.finish if is_last else None,
    }
    if is_last:
        choice["stop_reason"] = made.stop
    choice["token_ids"] = generation.ids([made.tokens[i].id])
    event: dict[str, Any] = {"choices": [choice]}
    if is_continuous:
        event["usage"] = generation.running_usage(i + 1)
    if is_last and not has_usage:
        event["system_fingerprint"] = FINGERPRINT
    return event
