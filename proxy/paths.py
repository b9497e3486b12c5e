"""Which route a path means. Decided on `scope["raw_path"]` alone: the Host header has no say (CVE-2026-48746).

Slashes that a client escaped (%2F) are part of an id, such as s3://bucket/run, and stay as they are. A base URL with a doubled or missing /v1, or with stray slashes, is served, never redirected: a redirected POST
loses its body.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote

_SLASHES = re.compile(r"/{2,}")
_SESSION = re.compile(
    r"/sessions/(?P<id>.+?)(?P<rest>/v1(?:/.*)?)|/sessions/(?P<bare_id>[^/]+)(?P<bare_rest>/.*)"
)
_VERSION = re.compile(r"(?:/v1)+(?=/|\Z)")
OPERATING = ("/health", "/ready", "/metrics")
UNGUARDED = (
    "/health",
    "/ready",
)  # what load balancers ask, who hold no key; neither says anything of a project


class Place(NamedTuple):
    route: str  # such as /v1/chat/completions
    session_id: str | None = None  # from /sessions/{id}/v1/…


def place_of(raw_path: bytes) -> Place:
    """`//v1/v1/models/` -> /v1/models; `/sessions/run%2F7/v1/chat/completions` -> that route in session run/7."""
    path = _SLASHES.sub("/", f"/{raw_path.decode('latin-1')}").rstrip("/")
    session_id = None
    if match := _SESSION.fullmatch(path):
        session_id = unquote(match["id"] or match["bare_id"])
        path = match["rest"] or match["bare_rest"]
    path = unquote(path)
    if path in OPERATING:
        return Place(path, session_id)
    return Place(
        "/v1" + _VERSION.sub("", path, count=1) if _VERSION.match(path) else f"/v1{path}", session_id
    )
