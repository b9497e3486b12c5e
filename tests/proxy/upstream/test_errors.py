"""What is no reply that we can read, and servers that cannot be reached: one error each, at once, that says why."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from proxy.upstream.errors import BrokenError, ConnectError, MalformedError, UpstreamError
from tests.proxy.running import free_port
from tests.proxy.upstream.conftest import Run
from tests.proxy.upstream.raw_server import OK, STREAM, Peer, answer_of, new_pool, raw_server, sends

HEAD = b"HTTP/1.1 200 OK\r\n"
MALFORMED = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9\r\n", "HTTP"),
    "HTTP/2": (b"\0\0\x12\4\0\0\0\0\0", "HTTP"),
    "status": (b"HTTP/1.1 2x0 OK\r\n\r\n", "HTTP"),
    "header": (HEAD + b"a b\x00: c\r\n\r\n", "HTTP"),
    "chunk size": (STREAM + b"xyz\r\na\r\n", "HTTP"),
    "chunk end": (STREAM + b"1\r\nabc", "HTTP"),
    "length": (HEAD + b"content-length: five\r\n\r\nhello", "HTTP"),
    "two lengths": (HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab", "HTTP"),
    "length and chunks": (HEAD + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP"),
    "transfer coding": (HEAD + b"transfer-encoding: gzip\r\n\r\nab", "Transfer-Encoding"),
    "switching": (b"HTTP/1.1 101 S\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\nab", "another protocol"),
    "head": (HEAD + b"a: b\r\n" * 20_000, "too large"),
    "one long header": (HEAD + b"a: " + b"b" * 100_000, "too large"),
    "interim replies": (b"HTTP/1.1 103 Early\r\na: b\r\n\r\n" * 5_000, "too large"),
    "br": (HEAD + b"content-encoding: br\r\ncontent-length: 2\r\n\r\nab", "'br'"),
    "br of an error": (b"HTTP/1.1 400 B\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nab", "'br'"),
    "two codings": (HEAD + b"content-encoding: gzip, gzip\r\ncontent-length: 2\r\n\r\nab", "gzip, gzip"),
    "no gzip": (HEAD + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nplain", "not the gzip"),
    "half a gzip": (
        HEAD + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00",
        "ends inside",
    ),
    "bytes behind deflate": (
        HEAD + b"content-encoding: deflate\r\ncontent-length: 12\r\n\r\nx\x9cKLJ\x06\x00\x02M\x01'x",
        "not the gzip",
    ),
}
SOUND = {"not the gzip", "ends inside"}  # what is wrong is inside the body: its connection may be used again


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_reply_is_an_error_that_says_what_is_wrong(run: Run, name: str) -> None:
    """B028: a body that we cannot decode is refused, not relayed."""
    raw, message = MALFORMED[name]

    async def story() -> None:
        async with raw_server(sends(raw)) as server, new_pool() as pool:
            with pytest.raises(MalformedError, match=message):
                await answer_of(pool, server.url)
            await asyncio.sleep(0.01)
            assert pool.num_idle == (1 if message in SOUND else 0)
            assert len(server.peers) == 1  # never asked twice

    run(story())


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}", "http://localhost:{}", "https://127.0.0.1:{}"])
def test_a_server_that_is_not_there_cannot_be_reached(run: Run, url: str) -> None:
    async def story() -> None:
        async with new_pool() as pool:
            with pytest.raises(ConnectError, match="cannot be reached"):
                await answer_of(pool, url.format(free_port()))

    run(story())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "a..b"])
def test_a_name_that_leads_nowhere_cannot_be_reached(run: Run, host: str) -> None:
    async def story() -> None:
        async with new_pool() as pool:
            with pytest.raises(ConnectError):
                await answer_of(pool, f"http://{host}:8000")

    run(story())


def test_a_machine_that_does_not_answer_is_given_up_in_time(run: Run) -> None:
    """Its queue of connections is full: the kernel answers no more."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
            listening.bind(("127.0.0.1", 0))
            listening.listen(0)
            for waiting in (first, second):
                waiting.setblocking(False)
                waiting.connect_ex(listening.getsockname())
            async with new_pool(connect_seconds=0.2) as pool:
                began = loop.time()
                with pytest.raises(ConnectError, match=r"within 0\.2 s"):
                    await answer_of(pool, f"http://127.0.0.1:{listening.getsockname()[1]}")
                assert loop.time() - began < 1

    run(story())


def test_a_connection_closed_as_soon_as_it_is_made_is_broken_and_not_a_reused_one(run: Run) -> None:
    async def story() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with new_pool() as pool:
            for _ in range(20):
                with pytest.raises(BrokenError) as caught:
                    await answer_of(pool, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
                assert (caught.value.has_begun, caught.value.was_reused) == (False, False)
            await asyncio.sleep(0.01)
            assert pool.num_connections == 0
        server.close()

    run(story())


def test_ipv6_is_spoken(run: Run) -> None:
    async def story() -> None:
        async with raw_server(sends(OK), host="::1") as server, new_pool() as pool:
            assert await answer_of(pool, server.url) == (200, b"ok")
            assert server.peers[0].head.decode().split("\r\n")[1] == f"host: {server.url[7:]}"

    run(story())


def test_small_writes_are_sent_at_once(run: Run) -> None:
    async def story() -> None:
        async with raw_server(sends(OK)) as server, new_pool() as pool:
            await answer_of(pool, server.url)
            [connection] = pool._all
            option = connection._transport.get_extra_info("socket").getsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY
            )
            assert option != 0

    run(story())


def certificate(directory: Path) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself: (certificate, key)."""
    x509 = pytest.importorskip("cryptography.x509")  # comes with vLLM
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "certificate.pem", directory / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def test_https_is_spoken_and_a_stranger_is_not_believed(run: Run, tmp_path: Path) -> None:
    paths = certificate(tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(*paths)
    trusting = ssl.create_default_context(cafile=str(paths[0]))

    async def big(peer: Peer) -> None:
        await peer.send(STREAM, *[b"8000\r\n" + bytes(0x8000) + b"\r\n"] * 64, b"0\r\n\r\n")

    async def story() -> None:
        async with raw_server(big, ssl=serving) as server:
            async with new_pool(tls=trusting) as pool:
                for _ in range(2):
                    assert await answer_of(pool, server.url, body=bytes(3 << 20)) == (200, bytes(2 << 20))
                assert server.num_connections == 1
            async with new_pool() as pool:
                with pytest.raises(ConnectError):
                    await answer_of(pool, server.url)

    run(story())


def test_no_error_holds_what_was_sent_or_received(run: Run) -> None:
    async def story() -> None:
        for raw in (STREAM + b"zz secret", b"secret\r\n", STREAM + b"6\r\nsecret"):
            async with raw_server(sends(raw, then="close")) as server, new_pool() as pool:
                with pytest.raises(UpstreamError) as caught:
                    await answer_of(pool, server.url, body=b"secret")
                assert "secret" not in repr(caught.value) + repr(caught.value.__cause__)

    run(story())
