"""The few HTTP requests that the command line makes, with the standard library: JSON in, JSON out, always a deadline."""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def call(url: str, body: Any = None, *, seconds: float = 5, key: str | None = None) -> tuple[int, Any]:
    """Status and parsed body (text where it is not JSON) of a GET, or of a POST where there is a body.

    Raises OSError when nobody answers.
    """
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, headers)  # noqa: S310 - addresses come from the operator's settings
    try:
        with urlopen(request, timeout=seconds) as reply:  # noqa: S310
            return reply.status, parse(reply.read())
    except HTTPError as error:
        with error:
            return error.code, parse(error.read())
    except HTTPException as error:
        raise OSError(str(error) or type(error).__name__) from error


def parse(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def ask_http(url: str, seconds: float = 3, key: str | None = None) -> str:
    """Empty when the address answers 200, else what it said instead."""
    try:
        status, body = call(url, seconds=seconds, key=key)
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__
    return "" if status == 200 else f"{status} {json.dumps(body)[:160]}"  # noqa: PLR2004
