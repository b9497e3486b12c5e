"""A server that answers every second choice right and remembers what it was asked and told: no model, no ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from openai import AsyncOpenAI


@dataclass(slots=True)
class Seen:
    """`calls`: body and headers. `thumbs`: body, target, and whether that answer was right."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    thumbs: list[dict[str, Any]] = field(default_factory=list)
    _right: dict[tuple[str, int], bool] = field(default_factory=dict)

    async def chat(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.calls.append(body | {"headers": headers})
        reply_id = f"chatcmpl-{len(self.calls)}"
        number = "".join(c for c in body["messages"][-1]["content"] if c.isdigit())
        choices = []
        for index in range(body.get("n") or 1):
            self._right[reply_id, index] = len(self._right) % 2 == 0
            text = number if self._right[reply_id, index] else "I do not know."
            message = {"role": "assistant", "content": text}
            choices.append({"index": index, "finish_reason": "stop", "message": message})
        usage = {"prompt_tokens": 9, "completion_tokens": 5 * len(choices), "total_tokens": 14}
        reply = {"id": reply_id, "object": "chat.completion", "created": 0, "model": "orders@0"}
        return web.json_response(reply | {"choices": choices, "usage": usage})

    async def reward(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        target = request.match_info["id"]
        was_right = self._right[target, body.get("choice", 0)]
        self.thumbs.append(body | {"target": target, "was_right": was_right})
        return web.json_response({})


@asynccontextmanager
async def running_product() -> AsyncIterator[tuple[AsyncOpenAI, Seen]]:
    """A client of it, and what it has seen."""
    seen, app = Seen(), web.Application()
    app.router.add_post("/v1/chat/completions", seen.chat)
    app.router.add_post("/v1/trajectories/{id}/reward", seen.reward)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    async with AsyncOpenAI(base_url=url, api_key="any") as client:
        yield client, seen
    await runner.cleanup()
