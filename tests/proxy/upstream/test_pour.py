"""Chunks that go straight to a sink: each of them once and in order, whoever takes them."""

import asyncio

import pytest

from proxy.upstream.errors import BrokenError
from tests.proxy.upstream.conftest import Run
from tests.proxy.upstream.raw_server import STREAM, Peer, ask, new_pool, raw_server

NUM_CHUNKS = 50


async def numbers(peer: Peer) -> None:
    await peer.send(STREAM)
    for k in range(NUM_CHUNKS):
        await peer.send(b"3\r\n%03d\r\n" % k)
        await asyncio.sleep(0)
    await peer.send(b"0\r\n\r\n")


EXPECTED = b"".join(b"%03d" % k for k in range(NUM_CHUNKS))


@pytest.mark.parametrize("stop_after", [0, 1, 7, NUM_CHUNKS + 1])
def test_a_sink_and_a_reader_share_a_reply_without_loss(run: Run, stop_after: int) -> None:
    async def story() -> None:
        async with raw_server(numbers) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            received: list[bytes] = []

            def sink(chunk: bytes) -> bool:
                received.append(chunk)
                return len(received) % (stop_after + 1) != 0

            while chunk := await reply.next_chunk():
                received.append(chunk)
                await reply.pour(sink)
            assert b"".join(received) == EXPECTED
            assert pool.num_idle == 1

    run(story())


def test_what_a_sink_raises_is_the_readers(run: Run) -> None:
    async def story() -> None:
        async with raw_server(numbers) as server, new_pool() as pool:
            reply = await ask(pool, server.url)

            def sink(_: bytes) -> bool:
                raise KeyError("odd")

            async def read_all() -> None:
                while await reply.next_chunk():
                    await reply.pour(sink)

            with pytest.raises(KeyError, match="odd"):
                await read_all()
            reply.release()

    run(story())


def test_a_reply_that_breaks_while_it_is_poured_is_told_to_the_reader(run: Run) -> None:
    async def breaks(peer: Peer) -> None:
        await peer.send(STREAM)
        for _ in range(3):
            await peer.send(b"1\r\na\r\n")
            await asyncio.sleep(0.02)
        peer.reset()

    async def story() -> None:
        async with raw_server(breaks) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            received = bytearray()

            def sink(chunk: bytes) -> bool:
                received.extend(chunk)
                return True

            async def read_all() -> None:
                while chunk := await reply.next_chunk():
                    received.extend(chunk)
                    await reply.pour(sink)

            with pytest.raises(BrokenError):
                await read_all()
            assert received == b"aaa"

    run(story())
