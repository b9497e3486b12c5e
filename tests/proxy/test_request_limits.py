"""Requests that are too large, too slow, or no HTTP at all."""

import gzip
import json
import zlib
from typing import Any

import httpx
import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.raw_connection import raw_exchange
from tests.proxy.refusals import error_of
from tests.proxy.running import RunningProxy


@pytest.mark.parametrize("is_declared", [True, False])
def test_large_bodies_are_refused_declared_or_chunked(start_proxy: StartProxy, is_declared: bool) -> None:
    """B076"""
    proxy = start_proxy(max_body_bytes=10_000)

    def chunks() -> Any:
        yield from (b"x" * 1000 for _ in range(100))

    response = proxy.client.post("/v1/chat/completions", content=b"x" * 10_001 if is_declared else chunks())
    assert (response.status_code, error_of(response)["code"]) == (413, "request_too_large")
    assert proxy.client.post("/v1/trajectories/x/reward", content=b"x" * 10_001).status_code == 413


def test_large_headers_are_a_431_and_the_connection_closes(shared_proxy: RunningProxy) -> None:
    """B145"""
    for size in (70_000, 600_000):
        answer = raw_exchange(
            shared_proxy,
            b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Big: " + b"a" * size + b"\r\n\r\n",
        )
        assert b" 431 " in answer.split(b"\r\n")[0]
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "headers_too_large"


def test_what_is_no_http_is_a_400(shared_proxy: RunningProxy) -> None:
    answer = raw_exchange(shared_proxy, b"nonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"error"' in answer


def test_slow_heads_and_bodies_end(start_proxy: StartProxy) -> None:
    """B075: a silent connection and a half-sent head are closed; a body that never comes is a 408."""
    proxy = start_proxy(header_seconds=0.3, body_seconds=0.3)
    assert raw_exchange(proxy, b"") == b""
    assert raw_exchange(proxy, b"GET /health HTT") == b""
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n{"
    )
    assert b" 408 " in raw_exchange(proxy, head)


@pytest.mark.parametrize("host", ["localhost:4000/#@x", "localhost/v1/models?", "a@b", "x y", "x\\y"])
def test_odd_host_headers_decide_nothing_and_are_refused(shared_proxy: RunningProxy, host: str) -> None:
    """B134 B143"""
    for path in ("/v1/models", "/v1/trajectories"):
        response = shared_proxy.client.get(path, headers={"Host": host})
        assert response.status_code == 400
        error_of(response)


def test_a_compressed_request_is_read_within_the_limit_and_forwarded_plain(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    proxy = start_proxy(max_body_bytes=10_000)
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}).encode()

    def post(raw: bytes, encoding: str = "gzip") -> httpx.Response:
        headers = {"content-encoding": encoding, "content-type": "application/json"}
        return proxy.client.post("/v1/chat/completions", content=raw, headers=headers)

    assert post(gzip.compress(body)).status_code == post(zlib.compress(body), "deflate").status_code == 200
    assert [json.loads(seen.body)["messages"][0]["content"] for seen in vllm.chats()] == ["Hi", "Hi"]
    assert "Content-Encoding" not in vllm.chats()[-1].headers
    assert error_of(post(body))["message"].startswith("The body is not compressed")
    assert error_of(post(gzip.compress(body)[:-9]))["message"].startswith("The compressed body is cut off")
    assert post(gzip.compress(b"[" + b" " * 1_000_000)).status_code == 413
    assert post(body, "br").status_code == 415
    assert len(vllm.chats()) == 2
