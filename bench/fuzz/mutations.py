"""What can be wrong with the bytes of a request. Each mutation is a function of a random generator: pure.

`case_of(seed, number)` is the same case on every machine, so a finding is reproduced by its two numbers.
"""

import gzip
import random
from collections.abc import Callable

from bench.fuzz import bodies, framing
from bench.fuzz.case import Case, Ending, once
from bench.fuzz.seeds import a_request

Mutation = Callable[[random.Random, str], Case]
_ODD_BYTES = b'\x00\r\n\t :/\\"{}[]%\x7f\x80\xff'
_ODD_HEADERS = (
    ("Content-Encoding", ("br", "gzip, gzip", "identity", "zstd", "")),
    ("Expect", ("100-continue", "nonsense")),
    ("Connection", ("close", "upgrade", "keep-alive, close", "x" * 500)),
    ("Upgrade", ("websocket", "h2c", "TLS/1.3")),
    ("Host", ("", "a/b", "[::1", "evil@host", "a\tb", "127.0.0.1:99999", "ü.example")),
    ("Authorization", ("", "Bearer", "Bearer  ", "Basic YTpi", "Bearer \u00e9\u4e2d", "bearer x, Bearer y")),
    (
        "X-Trajectory-Id",
        ("", "a" * 3000, "../..", "\x01", "\u00e9", "a,b", "00000000-0000-0000-0000-000000000000"),
    ),
    ("X-Group-Id", ("", "g" * 3000, "\u4e2d")),
    ("X-Group-Size", ("-1", "0", "1e9", "99999999999999999999", "x", "²")),
    ("X-Route", ("", "r" * 3000, "\u4e2d", "a\tb")),
    ("X-Session-Id", ("", " ", "%00", "s" * 600)),
    ("X-Turn-Type", ("", "side", "odd")),
    ("X-Stainless-Retry-Count", ("1", "-1", "x", "999999999999", "٣")),
    (
        "Content-Type",
        ("", "text/plain", "application/json; charset=utf-16", "multipart/form-data; boundary=x"),
    ),
    ("Accept-Encoding", ("*;q=0", "br;q=nan")),
    ("Origin", ("null", "http://evil.example")),
    ("User-Agent", ("", "u" * 4000, "\u202e", "\xff")),
)


def cut(rng: random.Random, name: str) -> Case:
    data = a_request(rng, name).encoded()
    return once("cut", data[: rng.randrange(len(data))], rng.choice(list(Ending)))


def flipped(rng: random.Random, name: str) -> Case:
    data = bytearray(a_request(rng, name).encoded())
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return once("flipped", bytes(data))


def odd_bytes(rng: random.Random, name: str) -> Case:
    data = bytearray(a_request(rng, name).encoded())
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(2)] = bytes([rng.choice(_ODD_BYTES)])
    return once("odd bytes", bytes(data))


def doubled(rng: random.Random, name: str) -> Case:
    data = a_request(rng, name).encoded()
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice((1, 2, 16, 200)))
    return once("doubled", data[:end] + data[start:])


def lost(rng: random.Random, name: str) -> Case:
    data = a_request(rng, name).encoded()
    start = rng.randrange(len(data))
    return once("lost", data[:start] + data[start + rng.choice((1, 2, 16, 200)) :])


def odd_header(rng: random.Random, name: str) -> Case:
    request = a_request(rng, name)
    for header, values in rng.sample(_ODD_HEADERS, rng.choice((1, 1, 2))):
        request = request.with_header(header, rng.choice(values))
    return once("odd header", request.encoded())


def header_bomb(rng: random.Random, name: str) -> Case:
    request = a_request(rng, name)
    kind = rng.randrange(4)
    if kind == 0:
        data = request.with_header("X-Bomb", "b" * rng.choice((60_000, 70_000, 900_000))).encoded()
    elif kind == 1:
        many = "".join(f"X-{i}: {i}\r\n" for i in range(rng.choice((200, 6000))))
        data = request.encoded().replace(b"Host:", many.encode() + b"Host:", 1)
    elif kind == 2:
        data = request.encoded().replace(
            b" HTTP/1.1", b"?" + b"q" * rng.choice((5000, 70_000, 900_000)) + b" HTTP/1.1", 1
        )
    else:
        data = b"POST /v1/chat/completions HTTP/1.1\r\n" + b"A: " + b"a" * 2_000_000
    return once("header bomb", data)


def slow(rng: random.Random, name: str) -> Case:
    """One byte after the other: slowly from the start, or from the end of the head, or all but the last bytes at once."""
    data = a_request(rng, name).encoded()
    start = rng.choice((0, data.index(b"\r\n\r\n"), max(0, len(data) - 3)))
    step, pause = rng.choice(((1, 0.002), (7, 0.01), (1, 0.9)))
    rest = [data[i : i + step] for i in range(start, len(data), step)][: 6 if pause > 0.5 else 400]
    sent = start + step * len(rest)
    tail = [(data[sent:], 0.0)] if sent < len(data) and pause < 0.5 else []
    return Case("slow", ((data[:start], 0.0), *((piece, pause) for piece in rest), *tail))


def left(rng: random.Random, name: str) -> Case:
    """A right request whose client goes away at some moment."""
    request = a_request(rng, name, is_call=True)
    ending = rng.choice((Ending.CLOSE, Ending.RESET, Ending.LINGER))
    return Case("left", ((request.encoded(), rng.choice((0.0, 0.001, 0.01, 0.05))),), ending)


def garbage_after(rng: random.Random, name: str) -> Case:
    """A call that runs is answered whatever comes behind it on its connection."""
    request = a_request(rng, name, is_call=True)
    garbage = rng.choice(
        (b"\r\n\r\n", b"GET", b"\x00" * 40, b"xyz /\r\n\r\n", rng.randbytes(300), b"POST / HTTP/9.9\r\n\r\n")
    )
    return Case(
        "garbage after", ((request.encoded(), rng.choice((0.0, 0.02))), (garbage, 0.0)), Ending.WAIT, (name,)
    )


def pipelined(rng: random.Random, name: str) -> Case:
    names = tuple(f"{name}-{i}" for i in range(rng.randrange(2, 6)))
    requests = [a_request(rng, each, is_call=True).encoded() for each in names]
    if rng.random() < 0.5:
        return once("pipelined", b"".join(requests), Ending.WAIT, names)
    return Case("pipelined", tuple((request, 0.003) for request in requests), Ending.WAIT, names)


def compressed(rng: random.Random, name: str) -> Case:
    request = a_request(rng, name, is_call=True)
    packed = gzip.compress(request.body, mtime=0)
    kind = rng.randrange(4)
    if kind == 0:
        packed = packed[: rng.randrange(len(packed))]
    elif kind == 1:
        packed += packed
    elif kind == 2:
        packed = gzip.compress(b'{"messages":[],"x":"' + b"a" * 40_000_000 + b'"}', 1, mtime=0)
    else:
        at = rng.randrange(len(packed))
        packed = packed[:at] + rng.randbytes(3) + packed[at + 3 :]
    return once("compressed", request.with_body(packed).with_header("Content-Encoding", "gzip").encoded())


MUTATIONS: tuple[Mutation, ...] = (
    cut, flipped, flipped, odd_bytes, doubled, lost, odd_header, odd_header, header_bomb, slow, left, left,
    garbage_after, pipelined, compressed, *framing.MUTATIONS, *bodies.MUTATIONS, *bodies.MUTATIONS,
)  # fmt: skip


def case_of(seed: int, number: int) -> Case:
    rng = random.Random(f"{seed}:{number}")
    return rng.choice(MUTATIONS)(rng, f"fuzz-{seed}-{number}")
