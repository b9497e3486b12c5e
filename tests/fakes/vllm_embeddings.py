"""POST /v1/embeddings of the fake: a server that generates has none; one that embeds answers OpenAI's shape."""

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.vllm_stream import send_whole
from tests.fakes.vllm_tokens import checksum

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm


async def answer(fake: "FakeVllm", request: web.Request) -> web.Response:
    if not fake.serves_embeddings:
        return web.json_response({"detail": "Not Found"}, status=404)
    body = json.loads(await request.read())
    inputs = _inputs(body["input"])
    data = [
        {"index": i, "object": "embedding", "embedding": _embedding(item, body.get("encoding_format"))}
        for i, item in enumerate(inputs)
    ]
    tokens = sum(len(item) for item in inputs)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}  # fmt: skip
    head = {"id": f"embd-{checksum(body):016x}", "object": "list", "created": 1796016645}
    return await send_whole(fake, {**head, "model": fake.checked_model(body), "data": data, "usage": usage})


def _inputs(given: Any) -> list[Any]:
    """A text, texts, ids, or lists of ids (B025)."""
    if isinstance(given, str) or all(isinstance(item, int) for item in given):
        return [given]
    return list(given)


def _embedding(item: Any, encoding: str | None) -> Any:
    values = [checksum(item, i) % 1000 / 1000 for i in range(4)]
    return base64.b64encode(struct.pack("<4f", *values)).decode() if encoding == "base64" else values
