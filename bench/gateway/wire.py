"""HTTP/1.1 as far as the bench needs it: messages with a length, replies in chunks. Pure."""

import re

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
LAST_CHUNK = b"0\r\n\r\n"


def head_end(data: bytes | bytearray) -> int:
    """Where the body begins; 0 as long as the head is not whole."""
    return data.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in data else 0


def body_length(head: bytes) -> int:
    found = _LENGTH.search(head)
    return int(found[1]) if found else 0


def is_chunked(head: bytes) -> bool:
    return _CHUNKED.search(head) is not None


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def dechunked(body: bytes) -> bytes:
    """Raises ValueError for a body whose chunks do not add up."""
    pieces: list[bytes] = []
    at = 0
    while True:
        line_end = body.find(b"\r\n", at)
        size = int(body[at:line_end], 16) if line_end > at else -1
        if size == 0:
            return b"".join(pieces)
        start, at = line_end + 2, line_end + 2 + size + 2
        if size < 0 or body[at - 2 : at] != b"\r\n":
            raise ValueError("the chunks do not add up")
        pieces.append(body[start : at - 2])
