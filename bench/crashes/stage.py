"""What all rounds share: Postgres, Valkey, two replicas, the tiny model, and a server that forks workers."""

import multiprocessing
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import psycopg
import redis
from transformers.utils import logging as transformers_logging

from bench.crashes.clock import compiled, preloaded
from bench.crashes.replica import SmallReplica, serving
from bench.crashes.traffic import save_tiny_model
from bench.faults.servers import Ledger, Server, new_ledger, running
from bench.gateway.children import environment
from migrations import migrate
from slipstream.local.home import Home
from slipstream.local.ports import free_ports
from slipstream.local.valkey import redis_url, valkey_spec

NUM_REPLICAS = 2
_START_SECONDS = 60


@dataclass(frozen=True)
class Stage:
    directory: Path
    model: Path
    ledger: Ledger
    valkey: Server
    redis_url: str
    replicas: tuple[SmallReplica, ...]
    forks: ForkServerContext

    def new_database(self, name: str) -> str:
        """A database with our schema and no row."""
        address, _, template = self.ledger.url.rpartition("/")
        self._administer(f"CREATE DATABASE {name} TEMPLATE {template}")
        return f"{address}/{name}"

    def drop_database(self, name: str) -> None:
        self._administer(f"DROP DATABASE {name} WITH (FORCE)")

    def checkpoint(self) -> None:
        """What a crash of Postgres replays is then this round's alone."""
        self._administer("CHECKPOINT")

    def _administer(self, statement: str) -> None:
        address = self.ledger.url.rpartition("/")[0]
        with psycopg.connect(f"{address}/postgres", autocommit=True) as connection:
            connection.execute(statement)

    def flush(self) -> None:
        """FLUSHALL: every message and every trace of a worker is gone."""
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()

    def cut_connections(self) -> None:
        with redis.Redis.from_url(self.redis_url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@contextmanager
def set_up(directory: Path) -> Iterator[Stage]:
    home = Home.at(directory / "home")
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # a table is no place for one
    with ExitStack() as stack:
        ledger = new_ledger(directory)
        stack.enter_context(running(ledger.server))
        migrate(ledger.url)
        (port,) = free_ports(1)
        valkey = Server(valkey_spec(home, port, environment(), _START_SECONDS), directory, port)
        stack.enter_context(running(valkey))
        model = save_tiny_model(directory / "model")
        replicas = tuple(stack.enter_context(serving(SmallReplica(model))) for _ in range(NUM_REPLICAS))
        url = redis_url(home, port)
        yield Stage(directory, model, ledger, valkey, url, replicas, _fork_server(directory))


def _fork_server(directory: Path) -> ForkServerContext:
    """It has loaded torch and the trainer, and can jump in time; its children start in no time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["bench.crashes.entry", "bench.crashes.matrix", "rich.console", "rich.table"]
    )
    with preloaded(compiled(directory)):
        forkserver.ensure_running()
    return context
