"""Streams of a model server that go wrong, and what their client sees."""

import json

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 20}


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
