"""Servers that can be killed and started again, on the stack's leash: the mock, Postgres, proxies."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.children import Tree, environment, python, started
from bench.gateway.upstream import BASE_MODEL
from migrations import migrate
from slipstream.http import ask_http
from slipstream.local import postgres
from slipstream.local.child import ChildSpec
from slipstream.local.home import Home
from slipstream.local.ports import free_ports


class Server:
    """Runs from `start` until `kill` or `stop`; any number of times."""

    def __init__(self, spec: ChildSpec, directory: Path, port: int) -> None:
        self.port = port
        self._spec = spec
        self._directory = directory
        self._running: AbstractContextManager[Tree] | None = None
        self.tree: Tree

    def start(self) -> None:
        """Ready when this returns. Raises ChildFailedError."""
        self._running = started(self._spec, self._directory)
        self.tree = self._running.__enter__()

    def kill(self) -> None:
        """SIGKILL to each of its processes at once."""
        for pid in self.tree.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        running, self._running = self._running, None
        if running:
            running.__exit__(None, None, None)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def mock(directory: Path) -> Server:
    (port,) = free_ports(1)
    command = python("-m", "bench.gateway.upstream", str(port))
    ready = f"http://127.0.0.1:{port}/health"
    return Server(
        ChildSpec("mock", "Its log says why.", lambda: ask_http(ready), command, environment()),
        directory,
        port,
    )


@dataclass(frozen=True)
class Ledger:
    """An embedded Postgres with its default durability."""

    server: Server
    url: str


def new_ledger(directory: Path) -> Ledger:
    home = Home.at(directory / "home")
    home.create()
    (port,) = free_ports(1)
    inherited = environment()
    with started(postgres.initdb_spec(home, inherited), directory):
        pass
    server = Server(postgres.postgres_spec(home, port, inherited, 60), directory, port)
    return Ledger(server, postgres.database_url(home, port))


def proxy(
    name: str,
    directory: Path,
    upstream: int,
    url: str,
    *,
    spool: Path,
    **settings: str,
) -> Server:
    """A living one takes over a dead one's spool within a second."""
    (port,) = free_ports(1)
    configured = environment(
        DATABASE_URL=url,
        SLIPSTREAM_UPSTREAM_URLS=f"http://127.0.0.1:{upstream}",
        SLIPSTREAM_BASE_MODEL=BASE_MODEL,
        SLIPSTREAM_ADAPTERS=str(directory / "adapters"),
        SLIPSTREAM_SPOOL=str(spool),
        SLIPSTREAM_PORT=str(port),
        SLIPSTREAM_ADOPT_SECONDS="1",
        **settings,
    )
    ready = f"http://127.0.0.1:{port}/health"  # not /ready: it serves without Postgres, too
    return Server(
        ChildSpec(
            name,
            "Its log says why.",
            lambda: ask_http(ready),
            (sys.executable, "-m", "slipstream", "proxy"),
            configured,
            start_seconds=60,
        ),
        directory,
        port,
    )


@dataclass(frozen=True)
class Stage:
    directory: Path
    spool: Path
    ledger: Ledger
    upstream: Server
    proxies: tuple[Server, Server]

    @property
    def ports(self) -> list[int]:
        return [server.port for server in self.proxies]


@contextmanager
def set_up(directory: Path) -> Iterator[Stage]:
    """A mock, a migrated ledger, and two proxies that share a spool's directory."""
    with ExitStack() as stack:
        ledger = new_ledger(directory)
        upstream = stack.enter_context(running(mock(directory)))
        stack.enter_context(running(ledger.server))
        migrate(ledger.url)
        spool = directory / "spool"
        one, other = (
            stack.enter_context(running(proxy(name, directory, upstream.port, ledger.url, spool=spool)))
            for name in ("proxy-a", "proxy-b")
        )
        yield Stage(directory, spool, ledger, upstream, (one, other))
