"""Runs the real proxy under real uvicorn: in a thread for most tests, as a process of its own to be killed."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import uvicorn
from sqlalchemy import Engine, text

from proxy.app import create_app
from proxy.server import server_config
from proxy.settings import ProxySettings

ROOT = Path(__file__).parent.parent.parent


T = TypeVar("T")


def eventually(look: Callable[[], T], seconds: float = 20) -> T:
    """What `look` returns as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(0.02)
    return found


@dataclass
class RunningProxy:
    url: str
    client: httpx.Client
    engine: Engine

    def chat(
        self, headers: dict[str, str] | None = None, path: str = "/v1/chat/completions", **body: Any
    ) -> httpx.Response:
        whole = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], **body}
        return self.client.post(path, json=whole, headers=headers)

    def rows(self, sql: str = "SELECT * FROM exchanges ORDER BY id", **values: Any) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(text(sql), values))

    def exchanges(self, count: int = 1) -> list[Any]:
        """The rows, once there are as many."""
        eventually(lambda: len(self.rows()) >= count)
        found = self.rows()
        assert len(found) == count
        return found

    def metric(self, name: str) -> float:
        """The sum over all labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name} ", f"{name}{{"))
        )


def settings_for(database_url: str, upstream: str, directory: Path, **values: Any) -> ProxySettings:
    given = {
        "database_url": database_url,
        "upstream_urls": upstream,
        "base_model": "base-model",
        "adapters": directory / "adapters",
        "spool": directory / "spool",
        "port": 0,
        "watch_seconds": 0.1,
        "upstream_wait_seconds": 10,
        "shutdown_seconds": 5,
    }
    return ProxySettings(**{**given, **values})


@contextmanager
def running_proxy(
    settings: ProxySettings, engine: Engine, *, awaits_ready: bool = True
) -> Iterator[RunningProxy]:
    server = uvicorn.Server(server_config(settings, create_app(settings)))
    thread = threading.Thread(target=server.run, name="proxy", daemon=True)
    thread.start()
    eventually(lambda: server.started or not thread.is_alive())
    assert server.started
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            proxy = RunningProxy(url, client, engine)
            if awaits_ready:
                eventually(lambda: client.get("/ready").status_code == 200)
            yield proxy
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def start_process(settings: ProxySettings, port: int) -> "subprocess.Popen[bytes]":
    """A proxy as a process of its own, configured by environment alone."""
    environment = {
        "DATABASE_URL": settings.database_url.get_secret_value(),
        "SLIPSTREAM_UPSTREAM_URLS": settings.upstream_urls,
        "SLIPSTREAM_BASE_MODEL": settings.base_model,
        "SLIPSTREAM_ADAPTERS": str(settings.adapters),
        "SLIPSTREAM_SPOOL": str(settings.spool),
        "SLIPSTREAM_PORT": str(port),
        "SLIPSTREAM_WATCH_SECONDS": "0.1",
        "SLIPSTREAM_DATABASE_WAIT_SECONDS": str(settings.database_wait_seconds),
        "SLIPSTREAM_SHUTDOWN_SECONDS": str(settings.shutdown_seconds),
    }
    if settings.redis_url is not None:
        environment["REDIS_URL"] = settings.redis_url.get_secret_value()
    code = "from proxy.server import serve; from proxy.settings import ProxySettings; serve(ProxySettings())"
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **environment}, stderr=subprocess.PIPE
    )


@contextmanager
def proxy_process(
    settings: ProxySettings, engine: Engine
) -> Iterator[tuple[RunningProxy, "subprocess.Popen[bytes]"]]:
    """Ready when entered; ended by SIGTERM, if it still lives."""
    port = free_port()
    process = start_process(settings, port)
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            eventually(lambda: process.poll() is not None or is_ready(client), 60)
            yield RunningProxy(url, client, engine), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except httpx.TransportError:
        return False
