"""Slipstream's own processes as children of the stack: each is `slipstream NAME`, configured by environment alone."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from slipstream.http import ask_http
from slipstream.local.child import ChildSpec
from slipstream.settings import StackSettings

REMEDY = "The last lines say why; `slipstream config` shows the settings it was given."


def command(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "slipstream", name)


def migrate_spec(settings: StackSettings, environment: Mapping[str, str]) -> ChildSpec:
    return ChildSpec(
        "migrate", "The database cannot be brought to this version; its log says why.", command=command("migrate"),
        environment=environment, after=("postgres",), is_one_shot=True, start_seconds=settings.start_seconds,
    )  # fmt: skip


def proxy_spec(settings: StackSettings, environment: Mapping[str, str]) -> ChildSpec:
    """Starts beside vLLM, is ready when it can serve: so its deadline holds vLLM's."""
    address = local_address(settings)
    return ChildSpec(
        "proxy", REMEDY, lambda: ask_http(f"{address}/ready"), command("proxy"), environment,
        after=("migrate", "valkey"), grace_seconds=15, start_seconds=settings.vllm_start_seconds + settings.start_seconds,
    )  # fmt: skip


def worker_spec(
    settings: StackSettings, environment: Mapping[str, str], ping: Callable[[], str]
) -> ChildSpec:
    """Ready when it answers a ping, or when it works already: a step that it took over keeps it from answering.

    Passive waiting, beside the worker's own low priority: an answer never waits for a gradient.
    """
    own = {"OMP_WAIT_POLICY": "PASSIVE"}
    health = Path(environment["SLIPSTREAM_WORKER_HEALTH_FILE"])
    return ChildSpec(
        "worker", REMEDY, lambda: "" if health.exists() else ping(), command("worker"), {**own, **environment},
        after=("migrate", "valkey", "vllm"), before=lambda: health.unlink(missing_ok=True), grace_seconds=10,
        start_seconds=settings.start_seconds,
    )  # fmt: skip


def beat_spec(settings: StackSettings, environment: Mapping[str, str]) -> ChildSpec:
    """Ready when a tick ran: the worker touches the health file at each (B103)."""
    health = Path(environment["SLIPSTREAM_WORKER_HEALTH_FILE"])

    def ready() -> str:
        return "" if health.exists() else "no tick ran yet"

    return ChildSpec(
        "beat", REMEDY, ready, command=command("beat"), environment=environment, after=("worker",), grace_seconds=5,
        start_seconds=settings.start_seconds,
    )  # fmt: skip


def local_address(settings: StackSettings) -> str:
    """The proxy's base address as this machine reaches it, without /v1."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104 - only compared
    return f"http://{host}:{settings.port}"


def has_keys(database_url: str) -> bool:
    """Whether calls need a key. Told as if they did where the database does not answer just now."""
    from sqlalchemy.exc import SQLAlchemyError

    from ledger.database import sync_engine
    from ledger.keys import read_keys

    engine = sync_engine(database_url, pool_size=1)
    try:
        with engine.connect() as connection:
            return read_keys(connection).has_rows
    except SQLAlchemyError:
        return True
    finally:
        engine.dispose()


def ping_worker(redis_url: str) -> str:
    """Empty when a worker answers through the broker."""
    from celery import Celery

    try:
        with Celery(broker=redis_url, set_as_current=False) as app:
            answers = app.control.ping(timeout=1)
    except Exception as error:  # noqa: BLE001 - kombu raises what its transport raises
        return f"{type(error).__name__}: {error}"
    return "" if answers else "no worker answers a ping"
