"""Requests that are right: what the mutations start from, one of each kind that programs send."""

import json
import random
from dataclasses import dataclass, replace
from typing import Any

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": 'Why, "Zoë" - 1½ \\ \n?'}]
_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
BODIES: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [
        {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": 4},
        {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": 12, "stream": True},
        {"model": "default@base", "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}},
        {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": 4, "logprobs": True, "top_logprobs": 2},
        {"model": "gpt-4o", "messages": MESSAGES, "tools": [_TOOL], "tool_choice": "auto", "max_tokens": 4},
        {"model": "gpt-4o", "messages": [*MESSAGES, {"role": "assistant", "content": "So."}, MESSAGES[1]],
         "max_tokens": 4, "metadata": {"trajectory_id": "run/7"}, "store": False, "stop": ["."], "seed": 7},
    ],
    "/v1/completions": [{"model": "m", "prompt": "Once", "max_tokens": 4},
                        {"model": "m", "prompt": ["a", "b"], "stream": True}],
    "/v1/responses": [{"model": "m", "input": "Hi"}, {"model": "m", "input": MESSAGES, "stream": True}],
    "/v1/messages": [{"model": "m", "max_tokens": 8, "messages": [MESSAGES[1]]},
                     {"model": "m", "max_tokens": 8, "messages": [MESSAGES[1]], "stream": True}],
    "/v1/embeddings": [{"model": "m", "input": ["a", "b"]}],
    "/v1/trajectories/run%2F7/reward": [{"reward": 0.5, "comment": "good"}, {"reward": True, "id": "a-1"}],
}  # fmt: skip
PATHS = (
    "/v1/models",
    "/v1/models/default@base",
    "/v1/trajectories?limit=2",
    "/v1/steps",
    "/v1/versions",
    "/health",
)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def encoded(self) -> bytes:
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + self.body

    def with_header(self, name: str, value: str) -> "Request":
        """In place of the one of that name, if there is one."""
        others = tuple((n, v) for n, v in self.headers if n.lower() != name.lower())
        return replace(self, headers=(*others, (name, value)))

    def with_body(self, body: bytes) -> "Request":
        return replace(self, body=body).with_header("Content-Length", str(len(body)))


def a_request(rng: random.Random, request_id: str, *, is_call: bool = False) -> Request:
    """`is_call`: one that vLLM answers."""
    if not is_call and rng.random() < 0.2:
        return Request("GET", rng.choice(PATHS), _headers(request_id))
    path = rng.choice([path for path in BODIES if not is_call or path.count("/") < 4])
    body = rng.choice(BODIES[path])
    if rng.random() < 0.15 and "trajectories" not in path:
        path = f"/sessions/talk-{rng.randrange(9)}{path}"
    return post(path, body, request_id)


def post(path: str, body: Any, request_id: str) -> Request:
    raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return Request("POST", path, _headers(request_id), b"").with_body(raw)


def _headers(request_id: str) -> tuple[tuple[str, str], ...]:
    return (
        ("Host", "127.0.0.1"),
        ("Content-Type", "application/json"),
        ("Authorization", "Bearer sk-fuzz"),
        ("X-Request-Id", request_id),
    )
