"""The other routes as openai's SDKs call them."""

import json
from typing import Any

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy
from tests.sdk.seen import HIDDEN, MESSAGES, base, keys_in
from tests.sdk.worker import Worker


def test_models_are_listed_and_found_by_names_with_slashes(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B068 B069"""
    ids = sdk("models", base(proxy))["ids"]
    assert {"default", "default@base"} <= set(ids)
    assert sdk("model", base(proxy), id="default@base")["id"] == "default@base"
    error = sdk("model", base(proxy), id="Qwen/Qwen3-0.6B")["error"]
    assert ("NotFoundError" in error["kinds"], "Qwen/Qwen3-0.6B" in error["message"]) == (True, True)


def test_a_base_address_without_v1_or_with_a_slash_too_many_is_served(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B071 B073"""
    for address in (proxy.url, f"{proxy.url}//v1", f"{proxy.url}/v1/v1"):
        assert sdk("chat", address, body={"messages": MESSAGES, "max_tokens": 1})["reply"]["choices"]


def test_completions_whole_and_streamed(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    body = {"prompt": ["Hello", "The sky"], "max_tokens": 3, "n": 2, "seed": 1}
    reply = sdk("completion", base(proxy), body=body)["reply"]
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    chunks = sdk("completion_stream", base(proxy), body=body)["chunks"]
    for choice in reply["choices"]:
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(c["text"] for c in mine) == choice["text"]
    assert not keys_in([reply, chunks]) & HIDDEN


def test_responses_whole_and_streamed(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B046 B048"""
    body = {"input": "Hi", "max_output_tokens": 3, "seed": 1}
    seen = sdk("response", base(proxy), body=body)
    reply = seen["reply"]
    assert seen["text"] == reply["output"][0]["content"][0]["text"] != ""
    assert (reply["input_messages"], reply["output"][0]["content"][0]["logprobs"]) == (None, None)
    events = sdk("response_stream", base(proxy), body=body)["events"]
    assert (events[0], events[-1]) == ("response.created", "response.completed")
    assert events.count("response.output_text.delta") == 3


def test_responses_call_tools(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    tools = [{"type": "function", "name": "sky", "parameters": {"type": "object"}}]
    body = {"input": "Hi", "tools": tools, "tool_choice": "required"}
    [call] = sdk("response", base(proxy), body=body)["reply"]["output"]
    assert (call["name"], json.loads(call["arguments"])) == ("sky", {"hue": "red"})
    second = [{"role": "user", "content": "Hi"}, call, {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}]  # fmt: skip
    assert sdk("response", base(proxy), body={"input": second, "tools": tools})["text"]


@pytest.mark.parametrize("given", ["text", ["a", "b"], [1, 2, 3], [[1], [2, 3]]])
def test_embeddings_come_from_a_server_that_has_them(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, given: Any
) -> None:
    """B023 B025: every kind of input, in floats and in the base64 that SDKs ask for by themselves."""
    vllm.serves_embeddings = True
    count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
    vectors = sdk("embedding", base(proxy), body={"input": given})["vectors"]
    assert [len(vector) for vector in vectors] == [4] * count


def test_embeddings_of_a_server_that_generates_are_a_clear_404(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    error = sdk("embedding", base(proxy), body={"input": "text"})["error"]
    assert "NotFoundError" in error["kinds"]
    assert "embeddings" in error["message"]
