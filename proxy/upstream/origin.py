"""Where a request goes, and the head that it goes with. Pure.

Invariant: a head says what it was told and nothing else: text that would end a line is refused, never written.
"""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443}
_METHODS_WITH_BODY = {"POST", "PUT", "PATCH"}


@dataclass(frozen=True, slots=True)
class Origin:
    """What a connection leads to."""

    is_tls: bool
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Destination:
    """`shared` is what the head of each request to this URL holds, from behind the method: target, version, host."""

    origin: Origin
    shared: str


@lru_cache(maxsize=1024)
def destination_of(url: str) -> Destination:
    """Raises ValueError for what is no http or https URL."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("a model server's address looks like http://127.0.0.1:8000")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("a model server's address holds characters that must be escaped")
    port = parts.port or _PORTS[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    authority = host if port == _PORTS[parts.scheme] else f"{host}:{port}"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    shared = f" {target} HTTP/1.1\r\nhost: {authority}\r\naccept-encoding: identity\r\n"
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        shared += f"authorization: Basic {b64encode(pair.encode()).decode()}\r\n"
    return Destination(Origin(parts.scheme == "https", parts.hostname, port), shared)


def request_head(
    method: str, destination: Destination, headers: Iterable[tuple[str, str]], num_body_bytes: int
) -> bytes:
    """Raises ValueError for a header that cannot be written."""
    fields = [f"{name}: {value}" for name, value in headers]
    if num_body_bytes or method in _METHODS_WITH_BODY:
        fields.append(f"content-length: {num_body_bytes}")
    lines = "\r\n".join(fields)
    ends = len(fields) - 1 if fields else 0
    if lines.count("\n") != ends or lines.count("\r") != ends or "\0" in lines:
        raise ValueError("a header holds a line break or U+0000")
    last = "\r\n\r\n" if fields else "\r\n"
    return f"{method}{destination.shared}{lines}{last}".encode("latin-1")
