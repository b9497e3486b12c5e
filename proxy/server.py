"""Running the application with uvicorn. Idle connections outlive every client's pool (keep-alive races)."""

import sys
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ledger.logs import configure_logs
from proxy.app import create_app
from proxy.protocol import limited_protocol
from proxy.settings import ProxySettings

_NOT_STARTED = 3  # as uvicorn.run says it


def application() -> ASGIApp:
    """What each worker process builds, from the environment alone."""
    settings = ProxySettings()  # type: ignore[call-arg]  # the environment fills it
    configure_logs("proxy", settings.log_level)
    return create_app(settings)


def serve(settings: ProxySettings) -> None:
    """Blocks until a signal; streams that run then are given time to end."""
    configure_logs("proxy", settings.log_level)
    if settings.num_workers > 1:
        options = {**_options(settings), "factory": True, "workers": settings.num_workers}
        uvicorn.run("proxy.server:application", **options)
    else:
        server = uvicorn.Server(server_config(settings, create_app(settings)))
        server.run()
        if not server.started:  # the log says why
            sys.exit(_NOT_STARTED)


def server_config(settings: ProxySettings, app: Any) -> uvicorn.Config:
    return uvicorn.Config(app, **_options(settings))


def _options(settings: ProxySettings) -> dict[str, Any]:
    return {
        "host": settings.host,
        "port": settings.port,
        "http": limited_protocol(settings),
        "loop": "uvloop",
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "log_level": "warning",
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": settings.keep_alive_seconds,
        "timeout_graceful_shutdown": settings.shutdown_seconds,
    }
