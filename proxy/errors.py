"""Errors that end a call, in OpenAI's envelope. They are raised where they are noticed and sent in one place.

ProxyError                       (each carries the HTTP status it is answered with)
├── InvalidRequestError          400
│   ├── AuthenticationError      401
│   ├── PermissionDeniedError    403
│   ├── UnknownModelError        404
│   ├── UnknownRouteError        404
│   ├── NotFoundError            404
│   ├── MethodRefusedError       405
│   ├── BodyTimeoutError         408
│   ├── ConflictError            409
│   ├── BodyTooLargeError        413
│   ├── EncodingRefusedError     415
│   ├── UnprocessableError       422
│   └── HeadersTooLargeError     431
├── TooManyCallsError            429
└── ServerError                  500
    ├── CaptureRefusedError      429
    ├── OverloadedError          429
    ├── UpstreamBrokenError      502
    ├── UpstreamUnavailableError 503
    ├── LedgerUnavailableError   503
    ├── NoWorkerError            503
    ├── ShuttingDownError        503
    └── UpstreamTimeoutError     504
"""

from collections.abc import Callable
from typing import Any, TypeAlias

Envelope: TypeAlias = Callable[
    [dict[str, Any]], dict[str, Any]
]  # an error object as a route's clients expect it


def openai_envelope(error: dict[str, Any]) -> dict[str, Any]:
    return {"error": error}


def anthropic_envelope(error: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's shape and OpenAI's at once: each SDK finds what it looks for."""
    return {"type": "error", "error": error}


class ProxyError(Exception):
    """The proxy could not answer."""

    status = 500
    kind = "server_error"
    code: str | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        param: str | None = None,
        retry_after: int | None = None,
        allow: str | None = None,
    ) -> None:
        super().__init__(message or (self.__doc__ or "").strip())
        self.param = param
        self.retry_after = retry_after
        self.allow = allow

    @property
    def object(self) -> dict[str, Any]:
        """OpenAI's error object."""
        return {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}

    @property
    def envelope(self) -> dict[str, Any]:
        return openai_envelope(self.object)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = []
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode()))
        if self.status in {408, 409}:  # SDKs repeat these by themselves; the same request fails again
            headers.append((b"x-should-retry", b"false"))
        return headers


class InvalidRequestError(ProxyError):
    """The request cannot be understood."""

    status = 400
    kind = "invalid_request_error"


class AuthenticationError(InvalidRequestError):
    """No key that is known here was sent."""

    status = 401
    code = "invalid_api_key"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers, (b"www-authenticate", b"Bearer")]


class PermissionDeniedError(InvalidRequestError):
    """The key lacks a scope."""

    status = 403
    code = "missing_scope"


class UnknownModelError(InvalidRequestError):
    """The model does not exist."""

    status = 404
    code = "model_not_found"


class UnknownRouteError(InvalidRequestError):
    """There is no such route."""

    status = 404
    code = "unknown_url"


class NotFoundError(InvalidRequestError):
    """There is no such object."""

    status = 404
    code = "not_found"


class MethodRefusedError(InvalidRequestError):
    """The route does not answer this method."""

    status = 405
    code = "method_not_allowed"


class BodyTimeoutError(InvalidRequestError):
    """The request's body did not arrive in time."""

    status = 408
    code = "request_timeout"


class ConflictError(InvalidRequestError):
    """A reward with this id exists with other content: use a new id to change a judgement."""

    status = 409
    code = "conflict"


class BodyTooLargeError(InvalidRequestError):
    """The request's body is larger than SLIPSTREAM_MAX_BODY_BYTES allows: send less, or raise the limit."""

    status = 413
    code = "request_too_large"


class EncodingRefusedError(InvalidRequestError):
    """The request's Content-Encoding is not read: send gzip, deflate, or the body as it is."""

    status = 415
    code = "unsupported_content_encoding"


class UnprocessableError(InvalidRequestError):
    """A field has a value that is not allowed."""

    status = 422


class HeadersTooLargeError(InvalidRequestError):
    """The request's headers are larger than SLIPSTREAM_MAX_HEADER_BYTES allows."""

    status = 431
    code = "headers_too_large"


class TooManyCallsError(ProxyError):
    """This key has SLIPSTREAM_MAX_CONCURRENT_PER_KEY calls running: wait until one ends."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"


class ServerError(ProxyError):
    """The proxy failed; the request was fine."""


class CaptureRefusedError(ServerError):
    """The call cannot be recorded now, so it is not served: free space below SLIPSTREAM_SPOOL."""

    status = 429
    code = "capture_unavailable"


class OverloadedError(ServerError):
    """The proxy holds as many bytes of running requests as SLIPSTREAM_MAX_OPEN_BYTES allows; try again soon."""

    status = 429
    code = "overloaded"


class UpstreamBrokenError(ServerError):
    """The model server broke off before it answered."""

    status = 502
    code = "upstream_broken"


class UpstreamUnavailableError(ServerError):
    """No model server is ready to answer; try again soon."""

    status = 503
    code = "upstream_unavailable"


class LedgerUnavailableError(ServerError):
    """The database does not answer; try again soon."""

    status = 503
    code = "ledger_unavailable"


class NoWorkerError(ServerError):
    """No worker answered within SLIPSTREAM_PLAN_SECONDS: start one (`slipstream worker`), or ask `slipstream train --dry-run`."""

    status = 503
    code = "no_worker"


class ShuttingDownError(ServerError):
    """The proxy shuts down before this answer is complete; try again."""

    status = 503
    code = "shutting_down"


class UpstreamTimeoutError(ServerError):
    """The model server was silent for too long."""

    status = 504
    code = "upstream_timeout"
