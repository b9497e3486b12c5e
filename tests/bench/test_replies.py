"""The mock answers as the tests' fake does, which is held against the real vLLM: key for key, null for null."""

import json
from typing import Any

import pytest

from bench.gateway.replies import DONE, Asked, events, text_of, whole
from bench.gateway.upstream import asked_of
from tests.fakes import vllm_chat

CAPTURED = {"return_token_ids": True, "logprobs": True, "top_logprobs": 0}
ASKED = [{}, CAPTURED, {"logprobs": True}, {"stream_options": {"include_usage": True}}]


def a_body(**more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "model": "gpt-4o", **more}


def shape(value: Any) -> Any:
    """Keys in their order, lists by what stands in them, scalars by their type; ids and text differ, nulls may not."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return ["list", *({json.dumps(shape(item)) for item in value})]
    return type(value).__name__


def of_fake(body: dict[str, Any]) -> vllm_chat.Generation:
    return vllm_chat.Generation(body, "base-model", "7f")


def of_mock(body: dict[str, Any]) -> Asked:
    return asked_of(json.dumps(body).encode())


@pytest.mark.parametrize("more", ASKED)
def test_a_whole_reply_has_the_fakes_shape(more: dict[str, Any]) -> None:
    body = a_body(**more)
    mine = json.loads(whole(of_mock(body), b"chatcmpl-7f", b"base-model"))
    theirs = json.loads(vllm_chat.dumps(vllm_chat.whole(of_fake(body))))
    assert shape(mine) == shape(theirs)
    assert (mine["id"], mine["model"]) == (theirs["id"], theirs["model"])


@pytest.mark.parametrize("more", ASKED)
def test_each_event_has_the_fakes_shape(more: dict[str, Any]) -> None:
    body = a_body(**more, stream=True)
    *mine, done = events(of_mock(body), b"chatcmpl-7f", b"base-model")
    theirs = vllm_chat.events(of_fake(body))
    assert done == DONE
    assert all(event.startswith(b"data: {") and event.endswith(b"}\n\n") for event in mine)
    assert [shape(json.loads(event[6:])) for event in mine] == [shape(json.loads(event)) for event in theirs]


def test_ids_and_logprobs_are_one_for_each_token_and_ids_follow_the_prompt() -> None:
    body = a_body(**CAPTURED, max_tokens=64)
    body["messages"][0]["content"] = "word " * 400
    reply = json.loads(whole(of_mock(body), b"x", b"m"))
    (choice,) = reply["choices"]
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == 64
    assert (
        len(reply["prompt_token_ids"]) == reply["usage"]["prompt_tokens"] == 528
    )  # 2,123 bytes // 4, in steps of 16
    assert choice["message"]["content"] == text_of(64)


def test_the_texts_of_a_stream_are_the_text_of_the_whole() -> None:
    *made, _ = events(Asked(num_tokens=30), b"x", b"m")
    deltas = [json.loads(event[6:])["choices"][0]["delta"] for event in made]
    assert "".join(delta["content"] for delta in deltas) == text_of(30)
