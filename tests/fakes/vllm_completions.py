"""POST /v1/completions of the fake: prompts of text or of token ids, several at once, whole and streamed."""

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.vllm_errors import FakeError
from tests.fakes.vllm_stream import data_frames, dumps, fault_before_reply, send_stream, send_whole
from tests.fakes.vllm_tokens import Choice, checksum, choice_of, prompt_ids_of, token_at

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm

FINGERPRINT = "vllm-0.32.0-b8c5b1ff"


class Completion:
    """Everything a reply is made of. Choice k of prompt p has the index p * n + k."""

    def __init__(self, body: dict[str, Any], model: str, request_id: str | None) -> None:
        self.body, self.model = body, model
        self.prompts = _prompts(body.get("prompt"))
        self.reply_id = f"cmpl-{request_id or f'{checksum(model, body):016x}'}"
        count = 16 if body.get("max_tokens") is None else body["max_tokens"]
        self.choices = [
            (ids, choice_of(model, ids, body, k, max_tokens=count, stop=body.get("stop")))
            for ids in self.prompts
            for k in range(body.get("n") or 1)
        ]

    @property
    def head(self) -> dict[str, Any]:
        return {
            "id": self.reply_id,
            "object": "text_completion",
            "created": 1796016643,
            "model": self.model,
        }

    def wanted(self, ids: list[int]) -> list[int] | None:
        return ids if self.body.get("return_token_ids") else None

    def usage(self) -> dict[str, int]:
        prompt = sum(len(ids) for ids in self.prompts)
        made = sum(len(choice.tokens) for _, choice in self.choices)
        return {"prompt_tokens": prompt, "total_tokens": prompt + made, "completion_tokens": made}

    def logprobs(self, choice: Choice, start: int = 0, end: int | None = None) -> dict[str, Any] | None:
        """`logprobs: 0` gives the sampled token alone; k gives k more."""
        if (top := self.body.get("logprobs")) is None:
            return None
        before = sum(len(token.text) for token in choice.tokens[:start])
        offsets, tokens = [], choice.tokens[start:end]
        for token in tokens:
            offsets.append(before)
            before += len(token.text)
        return {
            "text_offset": offsets,
            "token_logprobs": [token.logprob for token in tokens],
            "tokens": [token.text for token in tokens],
            "top_logprobs": [
                {token.text: token.logprob, **{f" t{k}": token.logprob - k for k in range(1, top + 1)}}
                for token in tokens
            ],
        }


def _prompts(prompt: Any) -> list[list[int]]:
    if prompt in (None, ""):
        text = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise FakeError(400, text, param="prompt")
    if isinstance(prompt, str):
        return [prompt_ids_of(prompt)]
    if all(isinstance(item, int) for item in prompt):
        return [prompt]
    return [item if isinstance(item, list) else prompt_ids_of(item) for item in prompt]


async def answer(fake: "FakeVllm", request: web.Request) -> web.StreamResponse:
    if (fault := await fault_before_reply(fake)) is not None:
        return fault
    body = json.loads(await request.read())
    temperature = body.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
        text = f"temperature must be non-negative, got {float(temperature)}."
        raise FakeError(400, text, param="temperature")
    completion = Completion(body, fake.checked_model(body), request.headers.get("X-Request-Id"))
    if body.get("stream"):
        return await send_stream(fake, request, data_frames(_events(completion)))
    return await send_whole(fake, _whole(completion))


def _whole(completion: Completion) -> dict[str, Any]:
    choices = [_choice(completion, k) for k in range(len(completion.choices))]
    details = {"prompt_tokens_details": None, "completion_tokens_details": None}
    return {
        **completion.head,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": {**completion.usage(), **details},
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def _choice(completion: Completion, index: int) -> dict[str, Any]:
    ids, choice = completion.choices[index]
    asks_prompt = completion.body.get("prompt_logprobs") is not None
    return {
        "index": index,
        "text": choice.text,
        "logprobs": completion.logprobs(choice),
        "finish_reason": choice.finish,
        "stop_reason": choice.stop,
        "token_ids": completion.wanted(choice.ids),
        "prompt_logprobs": _prompt_logprobs(completion.model, ids) if asks_prompt else None,
        "prompt_token_ids": completion.wanted(ids),
        "routed_experts": None,
    }


def _prompt_logprobs(model: str, ids: list[int]) -> list[dict[str, Any] | None]:
    """None for the first token; then the logprob of each prompt token, keyed by its id."""
    made: list[dict[str, Any] | None] = [None]
    for i, token_id in enumerate(ids[1:], start=1):
        logprob = token_at(model, ids[:i], token_id, 0, 0).logprob
        made.append({str(token_id): {"logprob": logprob, "rank": 1, "decoded_token": f" w{token_id}"}})
    return made


def _events(completion: Completion) -> list[str]:
    has_usage = bool((completion.body.get("stream_options") or {}).get("include_usage"))
    made = []
    for i in range(max(len(choice.tokens) for _, choice in completion.choices)):
        for k, (_, choice) in enumerate(completion.choices):
            if i < len(choice.tokens):
                made.append({**completion.head, **_token_event(completion, k, i, has_usage=has_usage)})
    if has_usage:
        made.append(
            {
                **completion.head,
                "choices": [],
                "usage": completion.usage(),
                "system_fingerprint": FINGERPRINT,
            }
        )
    return [dumps(event) for event in made]


def _token_event(completion: Completion, index: int, i: int, *, has_usage: bool) -> dict[str, Any]:
    ids, choice = completion.choices[index]
    is_last = i == len(choice.tokens) - 1
    piece = {
        "index": index,
        "text": choice.pieces()[i],
        "logprobs": completion.logprobs(choice, i, i + 1),
        "finish_reason": choice.finish if is_last else None,
        "stop_reason": choice.stop if is_last else None,
        "prompt_token_ids": completion.wanted(ids) if i == 0 else None,
        "token_ids": completion.wanted([choice.tokens[i].id]),
    }
    fingerprint = {"system_fingerprint": FINGERPRINT} if is_last and not has_usage else {}
    return {"choices": [piece], **fingerprint}
