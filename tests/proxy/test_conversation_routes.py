"""Talks over /v1/messages and /v1/responses go on as chats do: whole and streamed, with tools, at another proxy."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from openai import OpenAI

from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy

TOOL = {"name": "weather", "description": "Weather.", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture
def two(start_proxy: StartProxy, valkey_url: str, tmp_path: Path) -> tuple[RunningProxy, RunningProxy]:
    a, b = (start_proxy(redis_url=valkey_url, spool=tmp_path / name) for name in "ab")
    return a, b


def message(proxy: RunningProxy, messages: list[Any], **body: Any) -> tuple[str, list[dict[str, Any]]]:
    """The trajectory, and the content blocks as an Anthropic client keeps them."""
    whole = {"model": "m", "max_tokens": 3, "system": "Be brief.", "messages": messages, **body}
    response = proxy.client.post("/v1/messages", json=whole)
    assert response.status_code == 200, response.text
    blocks = _streamed_blocks(response) if body.get("stream") else response.json()["content"]
    return response.headers["x-trajectory-id"], blocks


def _streamed_blocks(response: httpx.Response) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    raw: dict[int, str] = {}
    for line in response.text.splitlines():
        event = json.loads(line[6:]) if line.startswith("data: ") else {}
        if event.get("type") == "content_block_start":
            blocks.append(event["content_block"])
        elif event.get("type") == "content_block_delta":
            delta = event["delta"]
            if "text" in delta:
                blocks[-1]["text"] += delta["text"]
            else:
                raw[len(blocks) - 1] = raw.get(len(blocks) - 1, "") + delta.get("partial_json", "")
    for index, text in raw.items():
        blocks[index]["input"] = json.loads(text)
    return blocks


def test_messages_go_on(two: tuple[RunningProxy, RunningProxy]) -> None:
    messages: list[Any] = [{"role": "user", "content": uuid4().hex}]
    seen = set()
    for k, stream in enumerate((False, True, True, False)):
        trajectory_id, blocks = message(two[k % 2], messages, stream=stream)
        seen.add(trajectory_id)
        messages += [{"role": "assistant", "content": blocks}]
        messages += [{"role": "user", "content": [{"type": "text", "text": "And then?"}]}]
    assert len(seen) == 1
    assert {str(row.trajectory_id) for row in two[0].exchanges(4)} == seen


@pytest.mark.parametrize("stream", [False, True])
def test_messages_with_tools_go_on(two: tuple[RunningProxy, RunningProxy], stream: bool) -> None:
    question = {"role": "user", "content": uuid4().hex}
    tools = {"tools": [TOOL], "tool_choice": {"type": "any"}, "stream": stream}
    first, blocks = message(two[0], [question], **tools)
    [used] = [block for block in blocks if block["type"] == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": used["id"], "content": "18"}
    answered = [question, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    second, _ = message(two[1], answered, tools=[TOOL])
    assert second == first
    anew, _ = message(two[1], answered, tools=[TOOL])
    assert anew != first


@pytest.mark.parametrize("stream", [False, True])
def test_responses_go_on(two: tuple[RunningProxy, RunningProxy], stream: bool) -> None:
    """With the SDK, the output's items put before the next question as they are."""
    clients = [OpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0) for proxy in two]
    items: list[Any] = [{"role": "user", "content": uuid4().hex}]
    seen = set()
    for k in range(3):
        create = clients[k % 2].responses.with_raw_response.create
        given: Any = items[0]["content"] if k == 0 else items
        raw = create(model="m", input=given, instructions="Be brief.", stream=stream)
        seen.add(raw.headers["x-trajectory-id"])
        parsed: Any = raw.parse()
        response = list(parsed)[-1].response if stream else parsed
        items += [item.model_dump() for item in response.output]
        items += [{"role": "user", "content": [{"type": "input_text", "text": "And then?"}]}]
    assert len(seen) == 1
    assert {str(row.trajectory_id) for row in two[0].exchanges(3)} == seen
