"""Browsers of other origins: answered only where the operator names them. A browser asks first (the preflight).

Invariant: without SLIPSTREAM_CORS_ORIGINS nothing stands before the application.
"""

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from proxy.errors import InvalidRequestError
from proxy.settings import ProxySettings

_METHODS = ["GET", "POST", "DELETE"]
_EXPOSED = ["x-trajectory-id", "x-request-id", "x-model-version", "x-captured", "x-explored", "retry-after"]
_OF_THE_BODY = {"content-length", "content-type"}


def answering_origins(app: ASGIApp, settings: ProxySettings) -> ASGIApp:
    if not settings.cors_origins:
        return app
    origins = [origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()]
    return Preflights(
        app,
        allow_origins=origins,
        allow_methods=_METHODS,
        allow_headers=["*"],
        expose_headers=_EXPOSED,
        max_age=3600,
    )


class Preflights(CORSMiddleware):
    """Starlette's, with a refusal in our shape: no browser shows it to a page, but whoever looks for the fault reads it."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code == InvalidRequestError.status:
            error = InvalidRequestError(
                f"{bytes(response.body).decode()}: name the origin in SLIPSTREAM_CORS_ORIGINS; "
                f"the methods are {', '.join(_METHODS)}."
            )
            headers = {name: value for name, value in response.headers.items() if name not in _OF_THE_BODY}
            return JSONResponse(error.envelope, error.status, headers)
        return response
