"""Mutations of how a message is framed: request lines, lengths, chunks, other protocols."""

import random

from bench.fuzz.case import Case, Ending, once
from bench.fuzz.seeds import Request, a_request
from bench.gateway.wire import LAST_CHUNK, chunk

_LENGTHS = (
    "-1",
    "+5",
    "0x10",
    "1 0",
    "",
    " ",
    "٣",
    "99999999999999999999999",
    "16777217",
    "1e3",
    "5, 5",
    "5\x00",
    "NaN",
)
_ENCODINGS = (
    "chunked, chunked",
    "gzip, chunked",
    "identity",
    "xchunked",
    "chunked;q=1",
    "\tchunked",
    "CHUNKED",
    "",
)
_SIZES = (
    b"G",
    b"-1",
    b"0x5",
    b"FFFFFFFFFFFFFFFF1",
    b"",
    b" 5",
    b"5 ",
    b"5;x=" + b"y" * 70_000,
    b"5;\x00",
    b"7FFFFFFFFFFFFFFF",
)
_LINES = (
    "GET /v1/models", "GET /v1/models HTTP/1.1 HTTP/1.1", "GET  /v1/models HTTP/1.1", "get /v1/models HTTP/1.1",
    "BREW /v1/models HTTP/1.1", "GET /v1/models HTTP/3.0", "GET /v1/models http/1.1", "OPTIONS * HTTP/1.1",
    "CONNECT 127.0.0.1:22 HTTP/1.1", "TRACE / HTTP/1.1", "HEAD /v1/models HTTP/1.1", "HEAD /v1/chat/completions HTTP/1.1",
    "GET http://evil.example/v1/models HTTP/1.1", "GET //evil.example/ HTTP/1.1", "GET /%00 HTTP/1.1", "GET /%ff%fe HTTP/1.1",
    "GET /v1/../../etc/passwd HTTP/1.1", "GET /v1/models/%2e%2e%2f HTTP/1.1", "GET /v1/trajectories?limit=%00&after=%ff HTTP/1.1",
    "GET /v1/trajectories?limit=1e999 HTTP/1.1", "GET /v1/trajectories?limit=1&limit=x HTTP/1.1", "DELETE /v1/models HTTP/1.1",
    "PUT /v1/chat/completions HTTP/1.1", "GET /v1/models#x HTTP/1.1", "GET /sessions//v1/models HTTP/1.1",
    "GET /sessions/%2F/v1/models HTTP/1.1", "GET /metrics HTTP/1.0", "GET /ready HTTP/1.1", "PRI * HTTP/2.0",
    "GET /v1/trajectories/\ud83d HTTP/1.1", "GET /é HTTP/1.1", "POST /v1/load_lora_adapter HTTP/1.1", "GET /docs HTTP/1.1",
)  # fmt: skip
_OTHERS = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,  # TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 30,
    b"\r\n" * 50, b"\x00" * 3000, b"\n\n", b"SSH-2.0-OpenSSH_9.7\r\n", b"*1\r\n$4\r\nPING\r\n",
    b"GET /v1/models\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"GET /v1/models HTTP/1.1\nHost: x\n\n",
    b"GET /v1/models HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", b"GET /v1/models HTTP/1.1\r\n: x\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost : x\r\n\r\n", b"GET /v1/models HTTP/1.1\r\nHost\r\n\r\n", b"",
)  # fmt: skip


def odd_line(rng: random.Random, name: str) -> Case:
    line = rng.choice(_LINES)
    head = f"{line}\r\nHost: x\r\nX-Request-Id: {name}\r\n\r\n".encode("utf-8", "surrogatepass")
    return once("odd line", head, rng.choice((Ending.WAIT, Ending.HALF_CLOSE)))


def other_protocol(rng: random.Random, name: str) -> Case:
    del name
    return once(
        "other protocol",
        rng.choice((*_OTHERS, rng.randbytes(500))),
        rng.choice((Ending.WAIT, Ending.HALF_CLOSE)),
    )


def odd_length(rng: random.Random, name: str) -> Case:
    request = _with_body(rng, name)
    length = rng.choice((*_LENGTHS, str(len(request.body) + rng.choice((-5, -1, 1, 500)))))
    changed = request.with_header("Content-Length", length)
    if rng.random() < 0.3:
        changed = Request(
            changed.method, changed.path, (*changed.headers, ("Content-Length", "3")), changed.body
        )
    return once("odd length", changed.encoded(), rng.choice((Ending.WAIT, Ending.HALF_CLOSE)))


def odd_encoding(rng: random.Random, name: str) -> Case:
    """Transfer-Encoding with a length beside it, doubled, unknown."""
    request = _with_body(rng, name)
    framed = chunk(request.body) + LAST_CHUNK if rng.random() < 0.5 else request.body
    headers = (*request.headers, ("Transfer-Encoding", rng.choice((*_ENCODINGS, "chunked"))))
    if rng.random() < 0.5:
        headers = tuple(header for header in headers if header[0] != "Content-Length")
    return once("odd encoding", Request("POST", request.path, headers, framed).encoded())


def chunked(rng: random.Random, name: str) -> Case:
    """Right chunks, or one of them with an odd size, an odd end, or nothing behind it."""
    request = _with_body(rng, name)
    headers = tuple(header for header in request.headers if header[0] != "Content-Length")
    head = Request("POST", request.path, (*headers, ("Transfer-Encoding", "chunked"))).encoded()
    step = rng.choice((1, 7, 100, 5000))
    chunks = [chunk(request.body[i : i + step]) for i in range(0, len(request.body), step)]
    at = rng.randrange(len(chunks))
    kind = rng.randrange(6)
    if kind == 0:
        return once("chunked", head + b"".join(chunks) + LAST_CHUNK, Ending.WAIT, (name,))
    if kind == 1:
        chunks[at] = rng.choice(_SIZES) + b"\r\n" + chunks[at].partition(b"\r\n")[2]
    elif kind == 2:
        chunks[at] = chunks[at][:-2] + rng.choice((b"", b"\n", b"xx", b"\r\r\n"))
    elif kind == 3:
        return once(
            "chunked",
            head + b"".join(chunks[:at]),
            rng.choice((Ending.WAIT, Ending.HALF_CLOSE, Ending.CLOSE)),
        )
    elif kind == 4:
        trailers = b"".join(b"X-T%d: %d\r\n" % (i, i) for i in range(rng.choice((1, 20, 9000))))
        return once("chunked", head + b"".join(chunks) + b"0\r\n" + trailers + b"\r\n")
    else:
        return Case("chunked", ((head, 0.01), *((piece, 0.001) for piece in chunks[:300])))
    return once("chunked", head + b"".join(chunks) + LAST_CHUNK)


def _with_body(rng: random.Random, name: str) -> Request:
    return a_request(rng, name, is_call=True)


MUTATIONS = (odd_line, odd_line, other_protocol, odd_length, odd_encoding, chunked)
