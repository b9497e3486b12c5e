"""Streams that go wrong, on either side."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually, running_proxy, settings_for

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


def test_an_upstream_that_dies_in_a_stream_gives_an_error_event_and_no_done(
    proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B016 B018 B038: a plain data line with OpenAI's error; the row is failed and serving goes on."""
    vllm.faults.die_after_events = 3
    response = proxy.chat(**BODY)
    assert response.status_code == 200
    *events, last = [line for line in response.text.split("\n\n") if line]
    assert len(events) == 3
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "upstream_broken"
    assert "[DONE]" not in response.text
    [row] = proxy.exchanges()
    assert (row.status, len(row.completion_ids)) == ("failed", 2)
    vllm.faults.die_after_events = None
    assert "[DONE]" in proxy.chat(**BODY).text


def test_an_error_event_of_vllm_passes_unchanged_and_ends_the_stream(
    proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B020: even if vLLM goes on to say [DONE]."""
    error = b'data: {"error":{"message":"boom","type":"InternalServerError","param":null,"code":500}}\n\n'
    head = b'data: {"id":"x","model":"base-model","choices":[{"index":0,"delta":{"content":"a"},"token_ids":[7]}]}\n\n'
    vllm.faults.raw_chunks = [head, error, b"data: [DONE]\n\n"]
    response = proxy.chat(**BODY)
    assert response.content.endswith(error)
    [row] = proxy.exchanges()
    assert (row.status, row.error["message"], row.completion_ids) == ("failed", "boom", [7])


def test_a_stream_without_its_end_is_an_error(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.raw_chunks = [b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n']
    assert "upstream_broken" in proxy.chat(**BODY).text


def test_odd_framing_of_the_upstream_never_reaches_the_client(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B001 B003 B005 B006 B041 B078: keep-alives in every disguise, CRLF, a character cut in two, no last blank line."""
    event = '{"id":"x","model":"base-model","choices":[{"index":0,"delta":{"content":"é🙂"},"finish_reason":"stop","token_ids":[7]}]}'
    raw = f": ping\n\nid: 3\n: ping\n\nretry: 9\n\nevent: ping\ndata:\n\ndata: : keepalive\n\ndata: {event}\r\n\r\n".encode()
    vllm.faults.raw_chunks = [bytes([byte]) for byte in raw] + [b"data: [DONE]"]
    response = proxy.chat(**BODY)
    expected = event.replace(',"token_ids":[7]', "").replace("base-model", "default@0")
    assert response.text == f"data: {expected}\n\ndata: [DONE]\n\n"
    assert proxy.exchanges()[0].completion_text == "é🙂"
    assert proxy.metric("slipstream_stream_frames_dropped_total") == 5


def test_a_silent_upstream_is_a_504_before_the_first_byte_and_an_event_after(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    proxy = start_proxy(upstream_first_token_seconds=0.4, upstream_idle_seconds=0.5)
    vllm.faults.hang_before_reply = True
    assert proxy.chat().status_code == 504
    vllm.faults.hang_before_reply = False
    vllm.faults.event_seconds = 3
    assert "upstream_timeout" in proxy.chat(**BODY).text
    assert {row.status for row in proxy.exchanges(2)} == {"failed"}


def test_a_silence_within_a_stream_is_called_a_timeout(start_proxy: StartProxy, vllm: FakeVllm) -> None:
    proxy = start_proxy(upstream_idle_seconds=0.5)
    vllm.faults.event_seconds = 3
    assert "upstream_timeout" in proxy.chat(**BODY).text


def test_stopped_text_is_the_same_streamed_and_whole(proxy: RunningProxy) -> None:
    """B058"""
    plain = proxy.chat(max_tokens=5, seed=1).json()["choices"][0]["message"]["content"]
    stop = plain[7:10]
    whole = proxy.chat(max_tokens=5, seed=1, stop=[stop])
    streamed = proxy.chat(max_tokens=5, seed=1, stop=[stop], stream=True)
    rows = proxy.exchanges(3)[1:]
    assert whole.json()["choices"][0]["message"]["content"] == plain[: plain.index(stop)]
    assert rows[0].completion_text == rows[1].completion_text == plain[: plain.index(stop)]
    assert rows[0].completion_ids == rows[1].completion_ids
    assert [row.stop_reason for row in rows] == [stop, stop]
    assert "[DONE]" in streamed.text


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


def test_a_stream_open_during_shutdown_ends_normally_and_is_recorded(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """B053: its row is written before the process is gone."""
    vllm.faults.event_seconds = 0.1
    answers: list[str] = []
    with running_proxy(settings_for(database_url, vllm.url, tmp_path), engine) as proxy:
        reading = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{proxy.url}/v1/chat/completions", json=BODY, timeout=30).text
            )
        )
        reading.start()
        eventually(lambda: vllm.num_chunks_sent > 3)
    reading.join(10)
    assert answers[0].endswith("data: [DONE]\n\n")
    assert [row.status for row in proxy.rows()] == ["completed"]
    assert not list((tmp_path / "spool").rglob("*.seg*"))


def test_a_stream_that_is_refused_in_its_first_event_is_a_plain_error(
    proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B036: vLLM says 200 and then `data: {"error": …}` where only its engine refuses, such as a bad schema."""
    error = {"message": "Invalid JSON schema.", "type": "BadRequestError", "param": None, "code": 400}
    vllm.faults.raw_chunks = [
        b"data: " + json.dumps({"error": error}).encode() + b"\n\n",
        b"data: [DONE]\n\n",
    ]
    response = proxy.chat(**BODY)
    assert (response.status_code, response.json()) == (400, {"error": error})
    assert response.headers["content-type"] == "application/json"
    [row] = proxy.exchanges()
    assert (row.status, row.http_status, row.error) == ("failed", 400, error)


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
