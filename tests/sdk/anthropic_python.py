"""The worker of Anthropic's Python SDK: run as a script, it knows nothing of this project."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import anthropic

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


def failure(error: Exception) -> Any:
    return {
        "kinds": [kind.__name__ for kind in type(error).__mro__],
        "status": getattr(error, "status_code", None),
        "message": getattr(error, "message", str(error)),
        "body": getattr(error, "body", None),
    }


TASKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    made.__name__: made for made in (message, message_stream, count)
}


def main() -> None:
    for line in sys.stdin:
        task = json.loads(line)
        begun_at = time.monotonic()
        try:
            seen = TASKS[task["do"]](task)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what the test is about
            seen = {"error": failure(error)}
        seen["seconds"] = time.monotonic() - begun_at
        print(json.dumps(seen), flush=True)  # noqa: T201 - the worker's answer


if __name__ == "__main__":
    main()
