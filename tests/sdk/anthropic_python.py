"""The worker of Anthropic's Python SDK: run as a script, it knows nothing of this project."""

import json
from typing import Any

import anthropic
from tasks import serve

clients: dict[str, anthropic.Anthropic] = {}


def client_of(task: dict[str, Any]) -> anthropic.Anthropic:
    key = json.dumps([task["base_url"], task.get("max_retries", 0), task.get("headers")])
    if key not in clients:
        clients[key] = anthropic.Anthropic(
            base_url=task["base_url"],
            api_key="any",
            max_retries=task.get("max_retries", 0),
            timeout=30,
            default_headers=task.get("headers"),
        )
    return clients[key]


def arguments(body: dict[str, Any]) -> dict[str, Any]:
    return {"model": "claude", "max_tokens": 4, **body}


def message(task: dict[str, Any]) -> Any:
    raw = client_of(task).messages.with_raw_response.create(**arguments(task["body"]))
    return {"reply": raw.parse().model_dump(exclude_unset=True), "headers": dict(raw.headers)}


def message_stream(task: dict[str, Any]) -> Any:
    """The SDK puts the message together; after `stop_after` events the program walks away."""
    events: list[str] = []
    with client_of(task).messages.stream(**arguments(task["body"])) as stream:
        for event in stream:
            events.append(event.type)
            if len(events) == task.get("stop_after"):
                return {"events": events}
        return {"events": events, "reply": stream.get_final_message().model_dump(exclude_unset=True)}


def count(task: dict[str, Any]) -> Any:
    return {"tokens": client_of(task).messages.count_tokens(model="claude", **task["body"]).input_tokens}


if __name__ == "__main__":
    serve((message, message_stream, count), "body")
