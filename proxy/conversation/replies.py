"""Valkey's protocol (RESP2) as far as our commands need it: simple strings, numbers, and strings with a length."""

from collections.abc import Iterator, Sequence


class ValkeyError(Exception):
    """Valkey answered an error, or something that is no reply to what we ask."""


def command(parts: Sequence[bytes]) -> bytes:
    r"""Example: (b"RPOP", b"k") -> b"*2\r\n$4\r\nRPOP\r\n$1\r\nk\r\n"."""
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


class ReplyReader:
    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes | int | None]:
        """The replies that are whole by now. Raises ValkeyError."""
        self._rest += data
        while True:
            head, found, rest = self._rest.partition(b"\r\n")
            if not found:
                return
            kind, value = head[:1], head[1:]
            if kind == b"$" and value != b"-1":
                size = _number(value)
                if len(rest) < size + 2:
                    return
                self._rest = rest[size + 2 :]
                yield rest[:size]
                continue
            self._rest = rest
            yield _simple(kind, value)


def _simple(kind: bytes, value: bytes) -> bytes | int | None:
    if kind == b"$":
        return None
    if kind == b":":
        return _number(value)
    if kind == b"+":
        return value
    raise ValkeyError(value.decode(errors="replace")[:200])


def _number(value: bytes) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise ValkeyError("no number") from error
