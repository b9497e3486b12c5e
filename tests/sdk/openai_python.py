"""The worker of openai's Python SDK, any version: run as a script, it knows nothing of this project."""

import json
import time
from typing import Any

import openai
from tasks import serve

clients: dict[str, openai.OpenAI] = {}  # kept, with their connections


def client_of(task: dict[str, Any]) -> openai.OpenAI:
    key = json.dumps([task["base_url"], task.get("max_retries", 0), task.get("headers")])
    if key not in clients:
        clients[key] = openai.OpenAI(
            base_url=task["base_url"],
            api_key="any",
            max_retries=task.get("max_retries", 0),
            timeout=30,
            default_headers=task.get("headers"),
        )
    return clients[key]


def arguments(body: dict[str, Any], *known: str) -> dict[str, Any]:
    """What the SDK has a name for, and the rest as its extra body."""
    own = {key: value for key, value in body.items() if key in known}
    rest = {key: value for key, value in body.items() if key not in known}
    return {"model": "gpt-4o", **own, **({"extra_body": rest} if rest else {})}


def chat(task: dict[str, Any]) -> Any:
    raw = client_of(task).chat.completions.with_raw_response.create(**arguments(task["body"], "messages"))
    return {"reply": raw.parse().model_dump(exclude_unset=True), "headers": dict(raw.headers)}


def chat_stream(task: dict[str, Any]) -> Any:
    """`stop_after` chunks the program walks away."""
    stream = client_of(task).chat.completions.create(
        stream=True, **arguments(task["body"], "messages", "stream_options")
    )
    chunks: list[Any] = []
    with stream:
        for chunk in stream:
            chunks.append(chunk.model_dump(exclude_unset=True))
            if len(chunks) == task.get("stop_after"):
                break
    return {"chunks": chunks}


def completion(task: dict[str, Any]) -> Any:
    reply = client_of(task).completions.create(**arguments(task["body"], "prompt"))
    return {"reply": reply.model_dump(exclude_unset=True)}


def completion_stream(task: dict[str, Any]) -> Any:
    with client_of(task).completions.create(stream=True, **arguments(task["body"], "prompt")) as stream:
        return {"chunks": [chunk.model_dump(exclude_unset=True) for chunk in stream]}


def response(task: dict[str, Any]) -> Any:
    reply = client_of(task).responses.create(**arguments(task["body"], "input"))
    return {"reply": reply.model_dump(exclude_unset=True, warnings=False), "text": reply.output_text}


def response_stream(task: dict[str, Any]) -> Any:
    with client_of(task).responses.create(stream=True, **arguments(task["body"], "input")) as stream:
        return {"events": [event.type for event in stream]}


def embedding(task: dict[str, Any]) -> Any:
    """Without an encoding format, the SDK asks for base64 by itself where numpy is installed (B023)."""
    reply = client_of(task).embeddings.create(model="gpt-4o", input=task["body"]["input"])
    return {"vectors": [item.embedding for item in reply.data]}


def models(task: dict[str, Any]) -> Any:
    return {"ids": [model.id for model in client_of(task).models.list()]}


def model(task: dict[str, Any]) -> Any:
    return {"id": client_of(task).models.retrieve(task["id"]).id}


def idle(task: dict[str, Any]) -> Any:
    """Calls with pauses between them, over one pooled connection."""
    client = client_of(task)
    for seconds in task["pauses"]:
        client.models.list()
        time.sleep(seconds)
    client.models.list()
    return {"calls": len(task["pauses"]) + 1}


if __name__ == "__main__":
    serve(
        (
            chat,
            chat_stream,
            completion,
            completion_stream,
            response,
            response_stream,
            embedding,
            models,
            model,
            idle,
        ),
        "code",
        "param",
    )
