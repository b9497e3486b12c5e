"""Undoing a Content-Encoding as the bytes come, although we ask for none: a proxy between us and vLLM may add one.

Invariant: one call gives at most MAX_DECODED bytes, so that a small body that unpacks to an enormous one costs bounded memory.
"""

import zlib

from proxy.upstream.errors import MalformedError

MAX_DECODED = 1 << 20
_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_PLAIN = {"", "identity"}
_DECODED = {"gzip", "x-gzip", "deflate"}
_DEFLATE_METHOD, _HEADER_MULTIPLE = 8, 31  # RFC 1950, 2.2


class Decoder:
    """For `gzip` (of one or more members) and `deflate` (with zlib's header, or without as some servers send it)."""

    def __init__(self, coding: str) -> None:
        self._is_gzip = coding != "deflate"
        self._inner = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._tail = b""
        self._has_output = False  # the last call gave as much as it may
        self._has_input = False

    @property
    def num_waiting(self) -> int:
        """Bytes not decoded yet."""
        return len(self._tail)

    @property
    def has_more(self) -> bool:
        """Whether decode(b"") gives more."""
        return self._has_output or bool(self._tail and self._inner)

    def finish(self) -> None:
        """The body ends here. Raises MalformedError where it may not."""
        if self._has_input and not (self._inner and self._inner.eof and not self._tail):
            raise MalformedError("The model server's reply ends inside its compressed data.")

    def decode(self, data: bytes) -> bytes:
        """Raises MalformedError."""
        try:
            return self._decode(data)
        except zlib.error as error:
            raise MalformedError(
                "The model server's reply is not the gzip or deflate that it says."
            ) from error

    def _decode(self, data: bytes) -> bytes:
        data = self._tail + data
        self._has_input = self._has_input or bool(data)
        self._tail, self._has_output = b"", False
        if self._inner is None:
            if len(data) < 2:  # noqa: PLR2004 - the header that tells both kinds of deflate apart
                self._tail = data
                return b""
            self._inner = zlib.decompressobj(_ZLIB if _has_zlib_header(data) else _RAW)
        if self._inner.eof:
            if not self._is_gzip and data:
                raise zlib.error("bytes behind the end")
            if data:
                self._inner = zlib.decompressobj(_GZIP)
        decoded = self._inner.decompress(data, MAX_DECODED)
        self._tail = self._inner.unconsumed_tail or self._inner.unused_data
        self._has_output = len(decoded) == MAX_DECODED
        return decoded


def check_transfer(transfer_encoding: str) -> None:
    """Raises MalformedError."""
    if transfer_encoding.strip().lower() != "chunked":
        raise MalformedError("The model server's reply has a Transfer-Encoding other than chunked.")


def decoder_of(content_encoding: str) -> Decoder | None:
    """None for a body that is as it is. Raises MalformedError."""
    coding = content_encoding.strip().lower()
    if coding in _PLAIN:
        return None
    if coding in _DECODED:
        return Decoder(coding)
    raise MalformedError(
        "The model server's reply is compressed in a way that nobody asked for and we cannot read "
        f"({coding[:40]!r}); only gzip and deflate can be."
    )


def _has_zlib_header(data: bytes) -> bool:
    return data[0] & 15 == _DEFLATE_METHOD and (data[0] << 8 | data[1]) % _HEADER_MULTIPLE == 0
