"""Clients of HTTP/1.0: no chunks, and the end of the connection is the end of the answer (RFC 9112, 6.1 and 6.3)."""

import json

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.raw_connection import connected, read_all
from tests.proxy.running import RunningProxy

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20, "seed": 1}


def sent(proxy: RunningProxy, version: str, extra: str = "", **body: object) -> tuple[bytes, bytes]:
    """Head and body of the answer, read until the server closes."""
    raw = json.dumps({**BODY, **body}).encode()
    head = f"POST /v1/chat/completions HTTP/{version}\r\nHost: x\r\nContent-Length: {len(raw)}\r\n{extra}\r\n"
    with connected(proxy) as connection:
        connection.sendall(head.encode() + raw)
        answer, _, content = read_all(connection).partition(b"\r\n\r\n")
    return answer.lower(), content


@pytest.mark.parametrize("extra", ["", "Connection: keep-alive\r\n", "Expect: 100-continue\r\n"])
def test_a_client_of_http_1_0_gets_a_stream_as_plain_bytes_and_a_close(
    proxy: RunningProxy, vllm: FakeVllm, extra: str
) -> None:
    vllm.faults.event_seconds = 0.005
    head, content = sent(proxy, "1.0", extra, stream=True)
    assert head.startswith(b"http/1.1 200 ")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    events = content.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    said = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert len(said) == 21  # the role, 20 tokens
    assert [row.status for row in proxy.exchanges()] == ["completed"]


def test_a_client_of_http_1_0_gets_a_whole_answer_by_its_length_and_a_close(proxy: RunningProxy) -> None:
    head, content = sent(proxy, "1.0", "Connection: keep-alive\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert f"content-length: {len(content)}".encode() in head
    assert json.loads(content)["choices"][0]["finish_reason"] == "length"


def test_a_stream_that_breaks_off_tells_a_client_of_http_1_0_too(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.die_after_events = 3
    _, content = sent(proxy, "1.0", stream=True)
    assert b"upstream_broken" in content
    assert b"[DONE]" not in content


def test_a_client_of_http_1_1_still_gets_chunks(proxy: RunningProxy) -> None:
    head, content = sent(proxy, "1.1", "Connection: close\r\n", stream=True)
    assert b"transfer-encoding: chunked" in head
    assert content.endswith(b"\r\n0\r\n\r\n")


def test_management_answers_a_client_of_http_1_0(proxy: RunningProxy) -> None:
    with connected(proxy) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = read_all(connection)
    assert b"transfer-encoding" not in answer.lower()
    assert b"slipstream_calls_total" in answer
