"""When a reader is done, its connection goes on or is closed, and nobody waits for it."""

import asyncio

import pytest

from proxy.upstream.errors import BrokenError
from tests.proxy.upstream.conftest import Run
from tests.proxy.upstream.raw_server import OK, STREAM, Peer, ask, eventually, new_pool, raw_server, sends


def test_a_reply_whose_end_is_here_gives_its_connection_back_unread(run: Run) -> None:
    async def story() -> None:
        async with raw_server(sends(OK)) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            reply.release()
            reply.release()
            assert (pool.num_idle, server.num_gone) == (1, 0)

    run(story())


def test_the_end_may_come_behind_the_release(run: Run) -> None:
    """vLLM's last chunk follows `[DONE]`: nobody has to wait for it, and the connection stays."""

    async def answer(peer: Peer) -> None:
        await peer.send(STREAM, b"e\r\ndata: [DONE]\n\n\r\n")
        await asyncio.sleep(0.05)
        await peer.send(b"0\r\n\r\n")

    async def story() -> None:
        async with raw_server(answer) as server, new_pool() as pool:
            for _ in range(2):
                reply = await ask(pool, server.url)
                assert await reply.next_chunk() == b"data: [DONE]\n\n"
                reply.release(1.0)
                await eventually(lambda: pool.num_idle == 1)
            assert server.num_connections == 1

    run(story())


@pytest.mark.parametrize("more", [b"", b"8000\r\n" + bytes(0x8000) + b"\r\n"])
def test_an_end_that_does_not_come_soon_or_is_none_is_not_waited_for(run: Run, more: bytes) -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(STREAM, b"1\r\na\r\n")
        while more:
            await peer.send(more)
        await peer.reader.read(1)

    async def story() -> None:
        async with raw_server(answer) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            reply.release(30 if more else 0.1)
            await eventually(lambda: server.num_gone == 1)
            assert pool.num_connections == 0

    run(story())


@pytest.mark.parametrize("is_release", [False, True])
def test_a_reader_that_waits_is_told_when_its_connection_is_closed_from_elsewhere(
    run: Run, is_release: bool
) -> None:
    """The proxy stops, or the client is gone."""

    async def story() -> None:
        async with raw_server(sends(STREAM)) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            reading = asyncio.ensure_future(reply.next_chunk())
            await asyncio.sleep(0.01)
            if is_release:
                reply.release()
            else:
                await pool.close()
            with pytest.raises(BrokenError):
                await reading
            await eventually(lambda: server.num_gone == 1)
            assert pool.num_connections == 0
            reply.release()

    run(story())
