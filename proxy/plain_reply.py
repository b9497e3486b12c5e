"""Replies to clients of HTTP/1.0 (old proxies, `ab`): they know no chunks, so RFC 9112, 6.1 forbids us to send any.

Invariant: a reply whose length is not known goes out as it is, and its end is the end of the connection.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.connection import Client

CHUNKS_SINCE = "1.1"


class PlainReply:
    """Takes the place of the cycle's own `send`, which would send chunks."""

    def __init__(self, cycle: RequestResponseCycle, client: Client) -> None:
        self._cycle = cycle
        self._client = client
        self._is_until_close = False
        cycle.keep_alive = False  # also where the client asks for it: uvicorn keeps none of them
        cycle.waiting_for_100_continue = False  # RFC 9110, 10.1.1

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._begin(message.get("headers", []))
        elif self._is_until_close:
            self._cycle.expected_content_length = len(message.get("body", b""))  # whatever comes is right
        await RequestResponseCycle.send(self._cycle, message)

    def _begin(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._is_until_close = all(name.lower() != b"content-length" for name, _ in headers)
        if self._is_until_close:
            self._cycle.chunked_encoding = False
            self._client.is_chunked = False  # for good: this connection carries no other reply
