"""Slow, silent and hanging up: on either side, memory stays bounded and no connection is left behind."""

import asyncio
import hashlib
import tracemalloc
import zlib

import pytest

from proxy.upstream.errors import SilentError, UpstreamError
from proxy.upstream.reply import MAX_BUFFERED
from tests.proxy.upstream.conftest import Run
from tests.proxy.upstream.raw_server import (
    OK,
    STREAM,
    Peer,
    answer_of,
    ask,
    eventually,
    new_pool,
    raw_server,
    sends,
)

PIECE = bytes(range(256)) * 128  # 32 KiB
CHUNK = b"8000\r\n" + PIECE + b"\r\n"
MIB = 1 << 20


async def flood(peer: Peer) -> None:
    """64 MiB, and the end."""
    await peer.send(STREAM)
    for _ in range(2048):
        peer.writer.write(CHUNK)
        await peer.writer.drain()
        peer.num_before += 1  # chunks that went out
    await peer.send(b"0\r\n\r\n")


def test_a_slow_reader_slows_the_server_and_costs_no_memory(run: Run) -> None:
    """B055: what is not read stays with the server; when it is read, it is all there."""

    async def story() -> None:
        async with raw_server(flood) as server, new_pool() as pool:
            reply = await ask(pool, server.url, idle_seconds=0.2)
            await asyncio.sleep(0.5)  # longer than a server may be silent: this silence is ours
            num_sent = server.peers[0].num_before
            assert num_sent < 1024
            assert reply.num_buffered < MAX_BUFFERED + 256 * 1024
            await asyncio.sleep(0.1)
            assert server.peers[0].num_before == num_sent
            tracemalloc.start()
            received = 0
            while chunk := await reply.next_chunk():
                received += len(chunk)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert received == 2048 * len(PIECE)
            assert peak < 4 * MIB
            assert pool.num_idle == 1

    run(story())


def test_a_small_body_that_unpacks_to_an_enormous_one_costs_bounded_memory(run: Run) -> None:
    packed = zlib.compress(bytes(64 * MIB), level=9)  # 64 KiB
    raw = b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ncontent-length: %d\r\n\r\n" % len(packed)

    async def story() -> None:
        async with raw_server(sends(raw + packed)) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            tracemalloc.start()
            received = 0
            while chunk := await reply.next_chunk():
                received += len(chunk)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert received == 64 * MIB
            assert peak < 8 * MIB

    run(story())


def test_a_large_request_waits_for_a_server_that_reads_slowly(run: Run) -> None:
    body = PIECE * 1024  # 32 MiB
    digest = hashlib.sha256()

    async def answer(peer: Peer) -> None:
        await asyncio.sleep(0.3)
        assert pool_memory() < 4 * MIB
        for _ in range(1024):
            digest.update(await peer.reader.readexactly(len(PIECE)))
        await peer.send(OK)

    def pool_memory() -> int:
        return tracemalloc.get_traced_memory()[0]

    async def story() -> None:
        async with raw_server(answer, reads_body=False) as server, new_pool() as pool:
            tracemalloc.start()
            try:
                got = await answer_of(pool, server.url, body=body)
            finally:
                tracemalloc.stop()
            assert got == (200, b"ok")
            assert digest.digest() == hashlib.sha256(body).digest()
            assert pool.num_idle == 1

    run(story())


@pytest.mark.parametrize("is_rude", [False, True])
def test_an_error_that_answers_before_the_body_is_sent_is_read(run: Run, is_rude: bool) -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        if is_rude:
            peer.close()  # with megabytes unread: a RST follows
        else:
            await peer.reader.read(1)
            await asyncio.sleep(0.2)

    async def story() -> None:
        async with raw_server(answer, reads_body=False) as server, new_pool() as pool:
            assert await answer_of(pool, server.url, body=PIECE * 1024) == (413, b"big")
            assert pool.num_connections == 0  # half a request went out on it

    run(story())


@pytest.mark.parametrize("is_streaming", [False, True])
def test_i4_a_release_before_the_end_hangs_up_within_a_second(run: Run, is_streaming: bool) -> None:
    """I4, B050: vLLM stops generating when its connection closes."""

    async def answer(peer: Peer) -> None:
        await peer.send(STREAM)
        while is_streaming:
            await peer.send(b"1\r\na\r\n")
            await asyncio.sleep(0.01)
        await peer.reader.read(1)

    async def story() -> None:
        async with raw_server(answer) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            if is_streaming:
                assert await reply.next_chunk()
            reply.release()
            await eventually(lambda: server.num_gone == 1)
            assert pool.num_connections == 0

    run(story())


def test_i4_a_call_cancelled_at_any_wait_leaves_no_connection(run: Run) -> None:
    """I4, B051, B086: while it connects, sends, waits for the head, or reads; the next call is answered."""

    async def answer(peer: Peer) -> None:
        for byte in STREAM + b"1\r\na\r\n0\r\n\r\n":
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0)

    async def story() -> None:
        async with raw_server(answer) as server, new_pool() as pool:
            for num_turns in range(150):
                for body in (b"{}", PIECE * 48):  # in one write, and in pieces
                    call = asyncio.ensure_future(answer_of(pool, server.url, body=body))
                    for _ in range(num_turns):
                        await asyncio.sleep(0)
                    call.cancel()
                    await asyncio.gather(call, return_exceptions=True)
                    assert pool.num_connections - pool.num_idle <= 1  # closed, and not heard of yet
            assert await answer_of(pool, server.url) == (200, b"a")
            await eventually(lambda: pool.num_connections == pool.num_idle == 1)
            await eventually(lambda: server.num_gone == server.num_connections - 1)

    run(story())


@pytest.mark.parametrize("raw", [b"", STREAM[:20], STREAM, STREAM + b"1\r\na\r\n"])
def test_a_silent_server_is_given_up_wherever_it_falls_silent(run: Run, raw: bytes) -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(raw)
        await peer.reader.read(1)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with raw_server(answer) as server, new_pool() as pool:
            began = loop.time()
            with pytest.raises(SilentError, match=r"silent for 0\.2 s"):
                await answer_of(pool, server.url, idle_seconds=0.2)
            assert 0.15 < loop.time() - began < 1
            await eventually(lambda: server.num_gone == 1)
            assert pool.num_connections == 0

    run(story())


def test_a_server_that_dribbles_is_not_silent_and_each_request_has_its_own_patience(run: Run) -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(STREAM)
        for _ in range(8):
            await asyncio.sleep(0.05)
            await peer.send(b"1\r\na\r\n")
        await peer.send(b"0\r\n\r\n")

    async def story() -> None:
        async with raw_server(answer) as server, new_pool() as pool:
            assert await answer_of(pool, server.url, idle_seconds=0.2) == (200, b"a" * 8)
            assert await answer_of(pool, server.url, idle_seconds=30) == (200, b"a" * 8)
            with pytest.raises(SilentError):
                await answer_of(pool, server.url, idle_seconds=0.02)
            assert server.num_connections == 1

    run(story())


def test_many_at_once_each_get_their_own_reply(run: Run) -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(peer.body), peer.body)

    async def asked(number: int, pool: object, url: str) -> bool:
        body = b"%d" % number * 50
        return await answer_of(pool, url, body=body) == (200, body)  # type: ignore[arg-type]

    async def story() -> None:
        async with raw_server(answer, backlog=512) as server, new_pool() as pool:
            for _ in range(3):
                assert all(await asyncio.gather(*(asked(n, pool, server.url) for n in range(200))))
            assert server.num_connections <= 220
            assert pool.num_idle == pool.num_connections

    run(story())


def test_every_error_is_an_upstream_error_that_says_what_happened() -> None:
    for kind in UpstreamError.__subclasses__():
        assert kind.__doc__
        assert kind.__name__.endswith("Error")
