"""What a provider, or LiteLLM, refused, as an error in OpenAI's shape.

Invariant: a key is in none of them. What is said about keys is not repeated at all; anything else is searched for every
secret of the environment and for what looks like one.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litellm.exceptions import APIConnectionError, MidStreamFallbackError, Timeout

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_SECRET_LOOK = re.compile(r"\b(?:sk|pk|gsk|xai|AIza|AKIA|hf|r8|key|Bearer)[-_ ]?[A-Za-z0-9*_.\-]{12,}")
_LITELLM_WORDS = re.compile(r"^(?:litellm\.)?(?:\w+: )?(?:litellm\.)?(?:\w+: )?(?:\w+Exception - )?")
_HINT = re.compile(r"\s*To drop these, set `litellm.*", re.DOTALL)
_KEY_IS_MISSING = re.compile(r"api[_ ]key", re.IGNORECASE)  # LiteLLM has no kind of its own for it
_SHORTEST_SECRET = 8
_MAX_MESSAGE = 2000
_ERROR, _SERVER_ERROR, _NO_STATUS = 400, 500, 600
_OPERATORS = {401, 402, 403}  # about the operator's key or account: the client can change nothing


class BrokenOffError(Exception):
    """The provider broke off before it ended its answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    status: int
    object: dict[str, Any]
    headers: dict[str, str]

    @property
    def body(self) -> bytes:
        return json.dumps({"error": self.object}).encode()


def failure_of(error: Exception, provider: str) -> Failure:
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and _ERROR <= status < _NO_STATUS else 502
    if status in _OPERATORS or (status == _SERVER_ERROR and _KEY_IS_MISSING.search(str(error))):
        message = f"The provider '{provider}' refused the key or the account that this proxy uses: its operator must look."
        return Failure(502, _object(message, "external_refused"), {"x-should-retry": "false"})
    if isinstance(error, Timeout):
        return Failure(
            504, _object(f"The provider '{provider}' was silent for too long.", "upstream_timeout"), {}
        )
    if isinstance(error, BrokenOffError | APIConnectionError | MidStreamFallbackError):
        message = redacted(_said(error)) or str(BrokenOffError.__doc__)
        return Failure(502, _object(message, "external_broken"), _retry_after(error))
    if not isinstance(getattr(error, "status_code", None), int):
        message = f"The call to the provider '{provider}' failed ({type(error).__name__})."
        return Failure(502, _object(message, "external_failed"), {})
    told = _told(error)
    kind = "invalid_request_error" if status < _SERVER_ERROR else "server_error"
    code = told.get("code") or ("model_not_found" if status == 404 else None)  # noqa: PLR2004 - HTTP
    named = {"type": told.get("type") or kind, "param": told.get("param"), "code": code}
    message = redacted(str(told.get("message") or _said(error)))
    return Failure(status, {"message": message, **_texts(named)}, _retry_after(error))


def redacted(text: str, environment: Mapping[str, str] | None = None) -> str:
    secrets = (
        value
        for name, value in (os.environ if environment is None else environment).items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    )
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _SECRET_LOOK.sub("***", text)[:_MAX_MESSAGE]


def _object(message: str, code: str) -> dict[str, Any]:
    return {"message": message, "type": "server_error", "param": None, "code": code}


def _told(error: Exception) -> dict[str, Any]:
    """The provider's own error object, where LiteLLM kept it."""
    body = getattr(error, "body", None)
    if not isinstance(body, dict):
        text = str(error)
        try:
            body, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
        except ValueError:
            return {}
    inner = body.get("error", body) if isinstance(body, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _said(error: Exception) -> str:
    """LiteLLM's sentence without its own names and hints, which are about LiteLLM's settings."""
    text = _HINT.sub("", str(error))
    return _LITELLM_WORDS.sub("", text.partition(" Original exception:")[0]).strip()


def _texts(named: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value is None else redacted(str(value)) for key, value in named.items()}


def _retry_after(error: Exception) -> dict[str, str]:
    headers = getattr(error, "litellm_response_headers", None) or {}
    try:
        value = str(dict(headers).get("retry-after") or "")
    except (TypeError, ValueError):
        return {}
    is_plain = value and value.isascii() and value.isprintable() and len(value) < 64  # noqa: PLR2004
    return {"retry-after": value} if is_plain else {}
