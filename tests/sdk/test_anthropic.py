"""Anthropic's SDK on /v1/messages: the same proxy, another envelope."""

import uuid
from typing import Any

import pytest

from tests.corpus.recording import load, one
from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy, eventually
from tests.sdk.seen import row_of
from tests.sdk.worker import Worker

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def anthropic(worker_of: Any) -> Worker:
    worker: Worker = worker_of("anthropic-python")
    return worker


def test_a_message_and_its_headers(anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    seen = anthropic("message", proxy.url, body={"messages": MESSAGES, "max_tokens": 3})
    reply, headers = seen["reply"], seen["headers"]
    assert (reply["type"], reply["model"], reply["stop_reason"]) == ("message", "default@0", "max_tokens")
    assert reply["content"][0]["text"]
    assert reply["usage"]["output_tokens"] == 3
    row = row_of(proxy, headers["x-request-id"])
    assert (row.endpoint, row.status) == ("/v1/messages", "completed")


def test_a_stream_is_put_together_to_the_same_message(
    anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    body = {"messages": MESSAGES, "max_tokens": 3, "stop_sequences": ["zz"]}
    whole = anthropic("message", proxy.url, body=body)["reply"]
    streamed = anthropic("message_stream", proxy.url, body=body)
    assert streamed["reply"]["content"][0]["text"] == whole["content"][0]["text"]
    assert streamed["events"][0] == "message_start"
    assert streamed["reply"]["stop_reason"] == whole["stop_reason"]


def test_tools_are_streamed_as_the_real_vllm_streamed_them(
    anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    vllm.replays = [*load("messages_tool_any")]
    body = one("messages_tool_any", "client").asked.body
    reply = anthropic("message_stream", proxy.url, body=body)["reply"]
    [block] = reply["content"]
    assert (block["type"], block["name"], reply["stop_reason"]) == ("tool_use", "sky", "tool_use")
    assert block["input"]["hue"] in ("red", "blue")


def test_tokens_are_counted(anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    assert anthropic("count", proxy.url, body={"messages": MESSAGES})["tokens"] > 0


@pytest.mark.parametrize("do", ["message", "message_stream"])
def test_errors_are_the_sdks_own(anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm, do: str) -> None:
    """vLLM tells them in two envelopes, the client sees Anthropic's."""
    wrong = anthropic(do, proxy.url, body={"messages": MESSAGES, "max_tokens": 0})["error"]
    unknown = anthropic(do, proxy.url, body={"messages": MESSAGES, "model": "default@99"})["error"]
    assert ("BadRequestError" in wrong["kinds"], wrong["body"]["type"]) == (True, "error")
    assert ("NotFoundError" in unknown["kinds"], unknown["body"]["type"]) == (True, "error")


def test_a_failure_in_mid_stream_is_an_error_of_the_sdk(
    anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    vllm.faults.die_after_events = 3
    error = anthropic("message_stream", proxy.url, body={"messages": MESSAGES})["error"]
    assert "APIError" in error["kinds"]


def test_a_program_that_walks_away_stops_the_generation(
    anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B050"""
    vllm.faults.event_seconds = 0.05
    request_id = uuid.uuid4().hex
    given = {"headers": {"X-Request-Id": request_id}, "body": {"messages": MESSAGES, "max_tokens": 200}}
    anthropic("message_stream", proxy.url, stop_after=4, **given)
    assert row_of(proxy, request_id).status == "cancelled"
    eventually(lambda: vllm.num_aborted == 1, 2)


def test_a_retry_waits_as_told(anthropic: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B080"""
    vllm.faults.status, vllm.faults.num_refusals = 503, 1
    vllm.faults.raw_body, vllm.faults.headers = b"{}", {"Retry-After": "1"}
    seen = anthropic("message", proxy.url, max_retries=2, body={"messages": MESSAGES})
    assert seen["reply"]["content"]
    assert seen["seconds"] >= 1
