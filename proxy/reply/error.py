"""What a model server says when it refuses, in whatever shape, as the client of a route can read it."""

import json
from typing import Any

from proxy.errors import Envelope

_SERVER_ERROR = 500
_NO_ROUTE = {"detail": "Not Found"}


def told_error(raw: bytes, status: int, path: str, envelope: Envelope) -> tuple[bytes, dict[str, Any]]:
    """VLLM's own bytes if they have the route's shape already, else the route's envelope; and the error object."""
    body, error = error_in(raw)
    if error is not None and body == envelope(error):
        return raw, error
    if body == _NO_ROUTE:
        error = {
            "message": f"The model server behind this proxy does not answer POST {path}: it generates text only."
        }
    error = error or {"message": raw.decode(errors="replace")[:2000] or f"vLLM answered {status}."}
    kind = "invalid_request_error" if status < _SERVER_ERROR else "server_error"
    error = {
        "message": error["message"],
        "type": error.get("type") or kind,
        "param": error.get("param"),
        "code": error.get("code"),
    }
    return json.dumps(envelope(error)).encode(), error


def error_in(raw: bytes | str) -> tuple[Any, dict[str, Any] | None]:
    """The body of a reply, and the error object in it."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(body, dict):
        return body, None
    if isinstance(error := body.get("error"), dict):
        return body, error
    message = body.get("error") or body.get("detail") or body.get("message")
    if message is None:
        return body, None
    text = message if isinstance(message, str) else json.dumps(message)
    return body, {"message": text, **{key: body.get(key) for key in ("type", "param", "code")}}


def message_in(raw: bytes | str) -> str:
    _, error = error_in(raw)
    return str(error.get("message")) if error else str(raw)[:500]
