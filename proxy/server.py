"""Running the application with uvicorn. Idle connections outlive every client's pool (keep-alive races)."""

import uvicorn

from ledger.logs import configure_logs
from proxy.app import Application, create_app
from proxy.settings import ProxySettings


def application() -> Application:
    """What each worker process builds, from the environment alone."""
    settings = ProxySettings()  # type: ignore[call-arg]  # the environment fills it
    configure_logs("proxy", settings.log_level)
    return create_app(settings)


def serve(settings: ProxySettings) -> None:
    """Blocks until a signal; streams that run then are given time to end."""
    configure_logs("proxy", settings.log_level)
    uvicorn.run(
        "proxy.server:application" if settings.num_workers > 1 else create_app(settings),
        factory=settings.num_workers > 1,
        **server_options(settings),
    )


def server_options(settings: ProxySettings) -> dict[str, object]:
    return {
        "host": settings.host,
        "port": settings.port,
        "workers": settings.num_workers,
        "http": "httptools",
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
