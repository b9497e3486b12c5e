"""However a reply is framed and cut, the reader gets its body, whole; a cut-off one is never taken for a whole one."""

import asyncio
import gzip
import zlib
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.upstream.errors import BrokenError
from tests.proxy.upstream.conftest import Run
from tests.proxy.upstream.raw_server import Peer, answer_of, ask, new_pool, raw_server, sends

TEXT = "data: é🙂 0123456789\n\n".encode()


def chunked(*chunks: bytes, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    framed = [b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks]
    return b"".join(framed) + b"0\r\n" + trailer + b"\r\n"


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def encoded(coding: bytes, data: bytes) -> bytes:
    return b"content-encoding: %s\r\ncontent-length: %d\r\n\r\n%s" % (coding, len(data), data)


@dataclass(frozen=True)
class Framing:
    raw: bytes
    body: bytes = TEXT
    status: int = 200
    method: str = "POST"
    ends_with_connection: bool = False
    is_kept: bool = True
    head_is_all: bool = False  # nothing is missing once the head is in


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(TEXT)
FRAMINGS = {
    "length": Framing(LENGTH + TEXT),
    "chunks": Framing(CHUNKED + b"\r\n" + chunked(TEXT[:9], TEXT[9:])),
    "a chunk a byte": Framing(CHUNKED + b"\r\n" + chunked(*(TEXT[i : i + 1] for i in range(len(TEXT))))),
    "extensions and trailers": Framing(
        CHUNKED + b"\r\n" + chunked(TEXT, extension=b";a=b", trailer=b"x-late: 1\r\nx-later: 2\r\n")
    ),
    "interim replies": Framing(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + LENGTH + TEXT
    ),
    "until close": Framing(b"HTTP/1.1 200 OK\r\n\r\n" + TEXT, ends_with_connection=True, is_kept=False),
    "1.0": Framing(b"HTTP/1.0 200 OK\r\n\r\n" + TEXT, ends_with_connection=True, is_kept=False),
    "asks for a close": Framing(LENGTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + TEXT, is_kept=False),
    "204": Framing(b"HTTP/1.1 204 No Content\r\n\r\n", b"", 204, head_is_all=True),
    "304": Framing(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", b"", 304, head_is_all=True),
    "HEAD": Framing(LENGTH, b"", method="HEAD", head_is_all=True),
    "HEAD of chunks": Framing(CHUNKED + b"\r\n", b"", method="HEAD", head_is_all=True),
    "empty": Framing(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", b"", 500, head_is_all=True),
    "gzip": Framing(b"HTTP/1.1 200 OK\r\n" + encoded(b"GZIP", gzip.compress(TEXT))),
    "an error in gzip": Framing(b"HTTP/1.1 400 Bad\r\n" + encoded(b"gzip", gzip.compress(TEXT)), status=400),
    "gzip in two members": Framing(
        b"HTTP/1.1 200 OK\r\n" + encoded(b"gzip", gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]))
    ),
    "gzip in chunks": Framing(
        CHUNKED + b"content-encoding: gzip\r\n\r\n" + chunked(gzip.compress(TEXT)[:20], gzip.compress(TEXT)[20:])
    ),
    "deflate": Framing(b"HTTP/1.1 200 OK\r\n" + encoded(b"deflate", zlib.compress(TEXT))),
    "deflate without a header": Framing(b"HTTP/1.1 200 OK\r\n" + encoded(b"deflate", raw_deflate(TEXT))),
    "identity": Framing(b"HTTP/1.1 200 OK\r\n" + encoded(b"identity", TEXT)),
}  # fmt: skip
AT_HYPOTHESIS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


async def received(framing: Framing, pieces: list[bytes]) -> None:
    then = "close" if framing.ends_with_connection else "keep"
    async with raw_server(sends(*pieces, then=then)) as server, new_pool() as pool:
        for _ in range(2):  # the second tells whether the first left the connection clean
            got = await answer_of(pool, server.url, method=framing.method)
            assert got == (framing.status, framing.body)
        assert pool.num_idle == pool.num_connections == (1 if framing.is_kept else 0)
        assert server.num_connections == (1 if framing.is_kept else 2)


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_reply_cut_at_any_one_byte_is_the_same_reply(run: Run, name: str) -> None:
    """B026 B028 among them: what is compressed comes decoded, whether it answers 200 or 400."""
    framing = FRAMINGS[name]

    async def story() -> None:
        for cut in range(len(framing.raw) + 1):
            await received(framing, [framing.raw[:cut], framing.raw[cut:]])

    run(story())


@AT_HYPOTHESIS
@given(st.sampled_from(sorted(FRAMINGS)), st.sets(st.integers(1, 400)))
@example("extensions and trailers", set(range(400)))
@example("gzip in chunks", set(range(400)))
def test_a_reply_cut_at_any_bytes_is_the_same_reply(run: Run, name: str, cuts: set[int]) -> None:
    raw = FRAMINGS[name].raw
    places = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    run(received(FRAMINGS[name], [raw[a:b] for a, b in pairwise(places)]))


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("name", [name for name in FRAMINGS if not FRAMINGS[name].ends_with_connection])
def test_a_reply_that_breaks_off_at_any_byte_is_never_a_whole_one(run: Run, name: str, then: str) -> None:
    framing = FRAMINGS[name]

    async def broken_at(cut: int) -> None:
        async with raw_server(sends(framing.raw[:cut], then=then)) as server, new_pool() as pool:
            with pytest.raises(BrokenError) as caught:
                await answer_of(pool, server.url, method=framing.method)
            assert caught.value.has_begun == (cut > 0) or then == "reset"  # a reset may overtake the bytes
            assert not caught.value.was_reused
            assert pool.num_connections == 0

    async def story() -> None:
        for cut in range(len(framing.raw)):
            await broken_at(cut)

    run(story())


def test_the_reader_gets_what_came_before_it_gets_the_error(run: Run) -> None:
    async def story() -> None:
        raw = CHUNKED + b"\r\n" + b"3\r\nabc\r\n"
        async with raw_server(sends(raw, then="close")) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            assert await reply.next_chunk() == b"abc"
            for _ in range(2):
                with pytest.raises(BrokenError):
                    await reply.next_chunk()

    run(story())


def test_head_and_chunks_are_what_the_server_sent(run: Run) -> None:
    async def story() -> None:
        head = b"HTTP/1.1 201 Made\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nX-A: 1\r\nx-a: 2\r\n"
        may_go_on = asyncio.Event()

        async def answer(peer: Peer) -> None:
            await peer.send(head + b"transfer-encoding: chunked\r\n\r\n")
            for piece in (b"1\r\na\r\n", b"1\r\nb\r\n0\r\n\r\n"):
                await may_go_on.wait()
                may_go_on.clear()
                await peer.send(piece)

        async with raw_server(answer) as server, new_pool() as pool:
            reply = await ask(pool, server.url)
            assert (reply.status, reply.content_type) == (201, "text/event-stream")
            assert reply.headers["x-a"] == "1, 2"
            assert reply.take() == b""
            may_go_on.set()
            assert await reply.next_chunk() == b"a"
            may_go_on.set()
            assert await reply.next_chunk() == b"b"
            assert await reply.next_chunk() == await reply.next_chunk() == b""

    run(story())
