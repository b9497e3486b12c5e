"""POST /v1/completions of the fake: prompts of text or of token ids, prompt logprobs for probes."""

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.vllm_tokens import checksum, prompt_ids_of, token_at

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm


async def answer(fake: "FakeVllm", request: web.Request) -> web.Response:
    body = json.loads(await request.read())
    model = fake.checked_model(body)
    prompt = body["prompt"]
    ids = prompt if isinstance(prompt, list) else prompt_ids_of(prompt)
    choices = [_choice(body, model, ids, k) for k in range(body.get("n") or 1)]
    made = sum(len(choice["token_ids"] or ()) for choice in choices)
    usage = {"prompt_tokens": len(ids), "total_tokens": len(ids) + made, "completion_tokens": made}
    reply = {
        "id": f"cmpl-{checksum(model, ids):016x}",
        "object": "text_completion",
        "created": 1796016643,
        "model": model,
        "choices": choices,
        "usage": usage,
    }
    return web.json_response(reply)


def _choice(body: dict[str, Any], model: str, ids: list[int], k: int) -> dict[str, Any]:
    count = 16 if body.get("max_tokens") is None else body["max_tokens"]
    tokens = [token_at(model, ids, body.get("seed"), k, i) for i in range(count)]
    logprobs = {
        "text_offset": [0] * len(tokens),
        "token_logprobs": [token.logprob for token in tokens],
        "tokens": [token.text for token in tokens],
        "top_logprobs": [{token.text: token.logprob} for token in tokens],
    }
    wants_ids = bool(body.get("return_token_ids"))
    return {
        "index": k,
        "text": "".join(token.text for token in tokens),
        "logprobs": logprobs if body.get("logprobs") is not None else None,
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": [token.id for token in tokens] if wants_ids else None,
        "prompt_logprobs": _prompt_logprobs(model, ids) if body.get("prompt_logprobs") is not None else None,
        "prompt_token_ids": ids if wants_ids else None,
    }


def _prompt_logprobs(model: str, ids: list[int]) -> list[dict[str, Any] | None]:
    """None for the first token; then the logprob of each prompt token, keyed by its id."""
    made: list[dict[str, Any] | None] = [None]
    for i, token_id in enumerate(ids[1:], start=1):
        logprob = token_at(model, ids[:i], token_id, 0, 0).logprob
        made.append({str(token_id): {"logprob": logprob, "rank": 1, "decoded_token": f" w{token_id}"}})
    return made
