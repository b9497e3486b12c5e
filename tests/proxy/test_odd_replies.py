"""Replies and events that vLLM would not send: whatever they hold, the call gets its row."""

import json
from typing import Any

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 20}
ODD = [
    {"choices": [{"index": 0, "delta": {"tool_calls": "x"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [1, {"function": "f"}]}}]},
    {"choices": [{"index": None, "delta": {"content": "a"}}, {"index": 0, "delta": {"content": "b"}}]},
    {
        "choices": [
            {"index": "0", "delta": {}},
            {"index": -1, "delta": {}},
            {"index": [1], "delta": {}},
            {"index": 1 << 40},
        ]
    },
    {"choices": [], "usage": {"prompt_tokens": "abc"}},
    {"choices": [{"index": 0, "delta": {}, "token_ids": ["a", 1 << 40, -1]}]},
    {"choices": [{"index": 0, "delta": {}, "logprobs": {"content": [{"logprob": "x"}, 1]}}]},
    {"choices": [{"index": 0, "delta": {"content": 1, "reasoning": {"a": 1}}, "finish_reason": 7}]},
    {"choices": [{"index": 0, "delta": {"refusal": {"a": 1}}}, {"index": 0, "delta": {"refusal": "no"}}]},
    {"choices": "x", "model": 1, "prompt_token_ids": [1.5]},
]


@pytest.mark.parametrize("body", ODD)
def test_i4_whatever_an_event_holds_the_call_gets_its_row(
    proxy: RunningProxy, vllm: FakeVllm, body: Any
) -> None:
    """I4: also where nobody would have thought of it."""
    vllm.faults.raw_chunks = [f"data: {json.dumps(body)}\n\n".encode(), b"data: [DONE]\n\n"]
    assert "[DONE]" in proxy.chat(**BODY).text
    [row] = proxy.exchanges()
    assert (row.status, row.is_trainable) == ("completed", False)


def test_an_error_that_is_a_mere_text_is_an_error(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.raw_chunks = [b'data: {"error":"boom"}\n\n', b"data: [DONE]\n\n"]
    response = proxy.chat(**BODY)
    assert (response.status_code, response.json()["error"]["message"]) == (502, "boom")
    [row] = proxy.exchanges()
    assert (row.status, row.error["message"]) == ("failed", "boom")


def test_a_status_that_http_does_not_know_is_a_502(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.status, vllm.faults.raw_body = 999, b"{}"
    assert proxy.chat().status_code == 502
    assert proxy.exchanges()[0].status == "failed"


def test_replies_and_events_without_an_end_cost_bounded_memory(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    proxy = start_proxy(max_reply_bytes=100_000)
    vllm.faults.raw_body = b'{"x":"' + b"a" * 200_000 + b'"}'
    assert proxy.chat().status_code == 502
    vllm.faults.raw_chunks = [b"data: " + b"a" * (1 << 20)] * 20
    assert proxy.chat(**BODY).status_code == 502
    assert [row.status for row in proxy.exchanges(2)] == ["failed"] * 2
