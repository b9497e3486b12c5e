"""A model server of raw bytes: each test says, byte by byte, what it sends and when it closes."""

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from proxy.upstream.pool import UpstreamPool
from proxy.upstream.reply import UpstreamReply

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Peer:
    """The server's side of one connection, with one request read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int  # of the connection
    num_before: int  # requests on it before this one
    head: bytes = b""
    body: bytes = b""

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)  # the client reads before the next piece comes

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """As a killed process with unread bytes: RST, no FIN."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
        self.writer.transport.abort()


Answer = Callable[[Peer], Awaitable[None]]


@dataclass
class RawServer:
    answer: Answer
    url: str = ""
    reads_body: bool = True
    num_connections: int = 0
    num_gone: int = 0  # connections that ended
    peers: list[Peer] = field(default_factory=list)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        number, num_before = self.num_connections, 0
        self.writers.add(writer)
        try:
            while not writer.is_closing():
                peer = Peer(reader, writer, number, num_before)
                peer.head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", peer.head)
                if length and self.reads_body:
                    peer.body = await reader.readexactly(int(length[1]))
                self.peers.append(peer)
                await self.answer(peer)
                num_before += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.num_gone += 1
            self.writers.discard(writer)
            writer.close()


@asynccontextmanager
async def raw_server(answer: Answer, **options: Any) -> AsyncIterator[RawServer]:
    server = RawServer(answer, reads_body=options.pop("reads_body", True))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    host = options.pop("host", "127.0.0.1")
    listening = await asyncio.start_server(accept, host, 0, **options)
    name = f"[{host}]" if ":" in host else host
    scheme = "https" if options.get("ssl") else "http"
    server.url = f"{scheme}://{name}:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for writer in list(server.writers):
            writer.transport.abort()
        for task in list(tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


def sends(*pieces: bytes, then: str = "keep") -> Answer:
    """Answers each request with these pieces, then keeps the connection, closes or resets it."""

    async def answer(peer: Peer) -> None:
        await peer.send(*pieces)
        if then == "close":
            peer.close()
        elif then == "reset":
            peer.reset()

    return answer


def new_pool(**options: Any) -> UpstreamPool:
    return UpstreamPool(**{"connect_seconds": 5, "keep_alive_seconds": 4, **options})


async def ask(
    pool: UpstreamPool, url: str, body: bytes = b"{}", *, method: str = "POST", idle_seconds: float = 20
) -> UpstreamReply:
    return await pool.request(method, url, [("x-request-id", "1")], body, idle_seconds=idle_seconds)


async def answer_of(pool: UpstreamPool, url: str, **options: Any) -> tuple[int, bytes]:
    reply = await ask(pool, url, **options)
    try:
        return reply.status, await reply.read()
    finally:
        reply.release()


async def eventually(look: Callable[[], object], seconds: float = 1) -> None:
    """B050, I4: what a hang-up must cause is there within a second."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not look():
        assert loop.time() < deadline, f"not within {seconds} s"
        await asyncio.sleep(0.005)
