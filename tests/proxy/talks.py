"""A client's side of a conversation: what it reads of a reply, and what it sends next."""

import json
from typing import Any

import httpx


def trajectory_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.headers["x-trajectory-id"]


def reply_of(response: httpx.Response, index: int = 0) -> dict[str, Any]:
    """The answer as a client without an SDK repeats it; of a stream, put together."""
    if "event-stream" not in response.headers["content-type"]:
        message: dict[str, Any] = response.json()["choices"][index]["message"]
        return message
    events = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    parts = [choice["delta"].get("content") or "" for choice in choices if choice["index"] == index]
    return {"role": "assistant", "content": "".join(parts)}


def then(*said: dict[str, Any], text: str = "And then?") -> list[dict[str, Any]]:
    return [*said, {"role": "user", "content": text}]
