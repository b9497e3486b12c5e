"""OPTIONS: which methods a route answers. It is asked by browsers and by load balancers, and needs no key."""

from collections.abc import Iterable

from fastapi import FastAPI
from starlette.routing import Match
from starlette.types import Send

from proxy.errors import UnknownRouteError


async def send_allowed(send: Send, management: FastAPI, route: str, methods: Iterable[str]) -> None:
    """204 with Allow. Raises UnknownRouteError where nothing answers."""
    allowed = {*methods, *_methods_of(management, route)}
    if not allowed:
        raise UnknownRouteError(f"There is no route {route}.")
    allow = ", ".join(sorted(allowed | {"OPTIONS"} | ({"HEAD"} if "GET" in allowed else set())))
    headers = [(b"allow", allow.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _methods_of(management: FastAPI, route: str) -> Iterable[str]:
    for candidate in management.routes:
        for method in getattr(candidate, "methods", None) or ():
            matched, _ = candidate.matches({"type": "http", "path": route, "method": method, "root_path": ""})
            if matched is Match.FULL:
                yield method
