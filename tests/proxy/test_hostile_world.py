"""What a hostile or unlucky world does to one proxy: each was seen to break it."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.test_durability import BrokenSpool

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
STREAM = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}).encode()


def exchanged(proxy: RunningProxy, sent: bytes) -> bytes:
    """All bytes that come back until the proxy closes."""
    address = urlsplit(proxy.url)
    received = b""
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=10) as connection:
        connection.sendall(sent)
        while chunk := connection.recv(65536):
            received += chunk
    return received


@pytest.mark.parametrize("odd", [["x"], {"a": 1}])
@pytest.mark.parametrize(
    ("path", "key"),
    [("/v1/chat/completions", "messages"), ("/v1/messages", "messages"), ("/v1/responses", "input")],
)
def test_a_part_whose_type_is_no_text_is_no_fault_of_ours(
    proxy: RunningProxy, path: str, key: str, odd: object
) -> None:
    """The dialects' promise: nothing raises, whatever the client sent."""
    message = {"role": "user", "content": [{"type": odd, "text": "Hi"}]}
    body = {"model": "m", "max_tokens": 4, key: [message]}
    answer = proxy.client.post(path, json=body)
    assert answer.json().get("error", {}).get("message") != "The proxy failed; the request was fine."
    assert answer.status_code != 500


@pytest.mark.parametrize("index", [None, "x"])
def test_i4_a_choice_without_a_usable_index_leaves_a_row(
    proxy: RunningProxy, vllm: FakeVllm, index: object
) -> None:
    """I4: whatever ends the call, one finished record reaches the spool."""
    odd = json.dumps({"choices": [{"index": index, "delta": {"content": "a"}}]}).encode()
    even = json.dumps({"choices": [{"index": 0, "delta": {"content": "b"}}]}).encode()
    vllm.faults.raw_chunks = [b"data: " + even + b"\n\n", b"data: " + odd + b"\n\n", b"data: [DONE]\n\n"]
    answer = proxy.chat(stream=True)
    assert answer.status_code != 500
    eventually(proxy.rows, 5)


def test_a_status_that_nobody_knows_is_answered(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.status, vllm.faults.raw_body = 999, b"{}"
    assert proxy.chat().status_code >= 500


def test_an_offer_of_http_2_does_not_lose_the_body(start_proxy: StartProxy) -> None:
    """What Java's HttpClient (Spring AI, LangChain4j) and `curl --http2` send with their first request."""
    proxy = start_proxy()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(CHAT)
    )
    address = urlsplit(proxy.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=10) as connection:
        connection.sendall(head + CHAT)
        assert connection.recv(64).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head", [b"POST /nowhere HTTP/1.1", b"POST /v1/chat/completions HTTP/1.1\r\nContent-Encoding: br"]
)
def test_a_client_that_drips_on_after_its_refusal_is_hung_up_on(start_proxy: StartProxy, head: bytes) -> None:
    """B145: no key is needed for it, and one byte after the reply held the connection for ever."""
    proxy = start_proxy(keep_alive_seconds=1, body_seconds=1, header_seconds=1)
    address = urlsplit(proxy.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=6) as connection:
        connection.sendall(head + b"\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")
        connection.sendall(b"x")
        while connection.recv(65536):
            pass


def test_a_refusal_does_not_say_that_it_was_captured(
    start_proxy: StartProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = start_proxy()
    spool = BrokenSpool(proxy, monkeypatch)
    spool.break_append()
    refused = proxy.chat()
    assert (refused.status_code, refused.headers.get("x-captured")) == (429, "false")
