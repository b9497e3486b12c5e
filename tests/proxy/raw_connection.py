"""A client that is a mere socket, so that it can do what no library does."""

import socket

from tests.proxy.running import RunningProxy

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


def connected(proxy: RunningProxy) -> socket.socket:
    host, port = proxy.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    while chunk := connection.recv(65536):
        answer += chunk
    return answer


def raw_exchange(proxy: RunningProxy, raw: bytes) -> bytes:
    """What comes back until the proxy closes."""
    with connected(proxy) as connection:
        connection.sendall(raw)
        return read_all(connection)
