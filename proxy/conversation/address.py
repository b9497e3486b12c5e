"""Where Valkey is, as REDIS_URL says it: `redis://`, `rediss://` (TLS) or a Unix socket."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

_PLAIN, _TLS, _SOCKETS = {"redis", "valkey"}, {"rediss", "valkeys"}, {"unix", "redis+socket"}
_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Example: redis://:secret@cache:6380/2 -> host cache, port 6380, and two greetings: AUTH and SELECT 2."""

    host: str
    port: int
    path: str | None  # of a Unix socket
    tls: ssl.SSLContext | None
    greetings: tuple[tuple[bytes, ...], ...]

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Raises ValueError for what we cannot connect to."""
        parts = urlsplit(url)
        if parts.scheme not in _PLAIN | _TLS | _SOCKETS:
            raise ValueError(f"no address of a single server: {parts.scheme}://…")
        given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        path = unquote(parts.path) if parts.scheme in _SOCKETS else None
        database = given.get("db") or given.get("virtual_host") or ("" if path else parts.path.strip("/"))
        greetings = []
        if parts.password:
            names = (part for part in (parts.username, parts.password) if part)
            greetings.append((b"AUTH", *(unquote(name).encode() for name in names)))
        if database not in {"", "0"}:
            greetings.append((b"SELECT", database.encode()))
        tls = _context(given) if parts.scheme in _TLS else None
        return cls(parts.hostname or "localhost", parts.port or 6379, path, tls, tuple(greetings))

    async def connect(self, new: Callable[[], _Protocol]) -> _Protocol:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        if self.path:
            return (await loop.create_unix_connection(new, self.path))[1]
        return (await loop.create_connection(new, self.host, self.port, ssl=self.tls))[1]


def _context(given: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=given.get("ssl_ca_certs"))
    if given.get("ssl_cert_reqs", "").lower() in {"none", "cert_none"}:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
