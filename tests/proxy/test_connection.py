"""What a client's connection does beside sending well-formed requests: it breaks off, sends nonsense, sends nothing."""

import json
import socket
import time

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.raw_connection import HEAD, connected, raw_exchange, read_all
from tests.proxy.running import RunningProxy, eventually


@pytest.mark.parametrize("num_bytes", [150_000, 300_000, 1_000_000])
def test_a_hang_up_after_a_large_body_aborts_the_call(
    proxy: RunningProxy, vllm: FakeVllm, num_bytes: int
) -> None:
    """B050: a body that came in pieces larger than the server buffers leaves no connection unread."""
    vllm.faults.hang_before_reply = True
    body = json.dumps({"messages": [{"role": "user", "content": "x" * num_bytes}]}).encode()
    with connected(proxy) as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body))
        time.sleep(0.3)  # the proxy waits for the body when it comes
        connection.sendall(body)
        eventually(vllm.chats)
    began = time.monotonic()
    eventually(lambda: vllm.num_aborted, 5)
    assert time.monotonic() - began < 1
    [row] = proxy.exchanges()
    assert row.status == "cancelled"


def test_a_body_that_breaks_its_framing_is_a_400_at_once(proxy: RunningProxy, vllm: FakeVllm) -> None:
    began = time.monotonic()
    for pause in (0, 0.2):
        with connected(proxy) as connection:
            connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
            time.sleep(pause)
            connection.sendall(b"zz\r\n")
            answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    assert time.monotonic() - began < 5
    assert not vllm.chats()


def test_empty_lines_keep_no_connection_open(start_proxy: StartProxy) -> None:
    """B075: whatever comes after an answer and is no request."""
    proxy = start_proxy(header_seconds=0.5, keep_alive_seconds=1)
    with connected(proxy) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"\r\n")
        connection.settimeout(3)
        assert read_all(connection) == b""


def drip(connection: socket.socket, seconds: float) -> None:
    for _ in range(int(seconds / 0.05)):
        connection.sendall(b" ")
        time.sleep(0.05)


def test_a_body_that_nobody_reads_keeps_no_connection_open(start_proxy: StartProxy) -> None:
    """B075: it was refused by its declared length, and goes on for ever."""
    proxy = start_proxy(header_seconds=0.5, max_body_bytes=1000)
    with connected(proxy) as connection:
        connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n{")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            drip(connection, seconds=5)


@pytest.mark.parametrize("trailers", [b"a: " + b"x" * 300_000, b"a: b\r\n" * 50_000])
def test_trailers_without_an_end_are_refused(start_proxy: StartProxy, trailers: bytes) -> None:
    """B145: whether somebody waits for the end of the body, or the request was answered without it."""
    proxy = start_proxy(max_header_bytes=4096)
    body = b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    with connected(proxy) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + body)
        connection.sendall(trailers)
        assert read_all(connection).startswith(b"HTTP/1.1 431 ")
    with connected(proxy) as connection:
        connection.sendall(b"POST /v1/nowhere HTTP/1.1\r\n" + body)
        answer = connection.recv(65536)
        connection.sendall(trailers)
        assert (answer + read_all(connection)).startswith(b"HTTP/1.1 404 ")


def test_a_trailer_is_no_header(start_proxy: StartProxy) -> None:
    """RFC 9110, section 6.5.1. Whether the call had begun when it came decided what the call saw."""
    body = b'{"messages": [{"role": "user", "content": "Hi"}]}'
    chunks = b"%x\r\n%b\r\n0\r\nX-Trajectory-Id: from-a-trailer\r\n\r\n" % (len(body), body)
    answer = raw_exchange(
        start_proxy(), HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks
    )
    assert b"\r\nx-trajectory-id: " in answer
    assert b"from-a-trailer" not in answer
