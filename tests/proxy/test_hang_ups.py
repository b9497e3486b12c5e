"""Clients that hang up in the middle, close at the end, or read slowly."""

import json
import time
from typing import Any

import httpx
import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy, eventually

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 20}


def hang_up_after(proxy: RunningProxy, num_events: int, **body: Any) -> list[str]:
    """Reads so many events, then closes the connection."""
    seen: list[str] = []
    with (
        httpx.Client(base_url=proxy.url, trust_env=False, timeout=30) as client,
        client.stream("POST", "/v1/chat/completions", json={**BODY, **body}) as response,
    ):
        for line in response.iter_lines():
            if line:
                seen.append(line)
            if len(seen) >= num_events:
                break
    return seen


def test_i4_a_client_that_hangs_up_leaves_one_cancelled_row_with_what_was_produced(
    proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """I4, B050: and vLLM's generation is aborted within a second."""
    vllm.faults.event_seconds = 0.05
    seen = hang_up_after(proxy, 5)
    eventually(lambda: vllm.num_aborted, 1)
    [row] = proxy.exchanges()
    assert (row.status, row.is_delivered, row.untrainable_reason) == ("cancelled", False, "cancelled")
    assert 4 <= len(row.completion_ids) < 20
    assert row.completion_ids[: len(seen) - 1] == [
        int(json.loads(e[6:])["choices"][0]["delta"]["content"][2:]) for e in seen[1:]
    ]


def test_i4_a_hang_up_during_an_unstreamed_call_leaves_its_row(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """I4, B051"""
    vllm.faults.reply_seconds = 5
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{proxy.url}/v1/chat/completions", json={**BODY, "stream": False}, timeout=0.3)
    [row] = proxy.exchanges()
    assert row.status == "cancelled"
    eventually(lambda: vllm.num_aborted, 2)


def test_a_close_at_done_or_at_the_last_finish_reason_is_completed(proxy: RunningProxy) -> None:
    """B079"""
    hang_up_after(proxy, 22)  # the role, 20 tokens, [DONE]
    hang_up_after(proxy, 21)
    rows = proxy.exchanges(2)
    assert [(row.status, len(row.completion_ids), row.is_delivered) for row in rows] == [
        ("completed", 20, True)
    ] * 2


def test_a_slow_reader_slows_vllm_and_costs_no_memory(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B055: 40 MB are offered, the socket buffers fill, and vLLM waits."""
    big = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 100_000 + b'"}}]}\n\n'
    vllm.faults.raw_chunks = [big] * 400
    with (
        httpx.Client(base_url=proxy.url, trust_env=False, timeout=30) as client,
        client.stream("POST", "/v1/chat/completions", json=BODY) as response,
    ):
        next(response.iter_raw(1000))
        time.sleep(1)
        assert vllm.num_chunks_sent < 300
    assert proxy.exchanges()[0].status == "cancelled"
