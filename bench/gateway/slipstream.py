"""Slipstream as people run it: Postgres that flushes, migrations, `slipstream proxy`, spool on the disk, capture on.

Invariant: a round counts only if every call that was answered is a row with its ids and logprobs.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.gateway.children import Tree, environment, python, started
from bench.gateway.contender import Contender
from bench.gateway.outcome import Outcome
from bench.gateway.upstream import BASE_MODEL
from migrations import migrate
from slipstream.http import ask_http
from slipstream.local import postgres
from slipstream.local.child import ChildSpec
from slipstream.local.home import Home
from slipstream.local.ports import free_ports

_SETTLE_SECONDS = 120.0
_POLL_SECONDS = 0.1
_WHOLE = """
SELECT count(*), count(*) FILTER (
  WHERE status = 'completed' AND cardinality(prompt_ids) > 0
  AND cardinality(completion_ids) = %(num_tokens)s AND cardinality(logprobs) = %(num_tokens)s)
FROM exchanges WHERE id > %(after)s
"""
_LAST = "SELECT coalesce(max(id::text)::uuid, '00000000-0000-0000-0000-000000000000') FROM exchanges"


class LostRowsError(Exception):
    """Calls were answered that are not in the ledger, or not whole."""


@dataclass(frozen=True)
class Ledger:
    url: str
    tree: Tree
    rows: "Rows"


@contextmanager
def running_ledger(directory: Path) -> Iterator[Ledger]:
    """An embedded Postgres with its default durability, migrated."""
    home = Home.at(directory / "home")
    home.create()
    (port,) = free_ports(1)
    inherited = environment()
    with started(postgres.initdb_spec(home, inherited), directory):
        pass
    with started(postgres.postgres_spec(home, port, inherited, 60), directory) as tree:
        url = postgres.database_url(home, port)
        migrate(url)
        with closing(Rows(url)) as rows:
            yield Ledger(url, tree, rows)


class Rows:
    """What has been written since it was last asked. Proxies that take turns on one ledger share it."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._after = self._last()

    def close(self) -> None:
        self._connection.close()

    def _last(self) -> object:
        row = self._connection.execute(_LAST).fetchone()
        assert row
        return row[0]

    def settle(self, outcome: Outcome, num_tokens: int) -> None:
        """Waits until as many rows are visible as calls were answered. Raises LostRowsError."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            row = self._connection.execute(
                _WHOLE, {"num_tokens": num_tokens, "after": self._after}
            ).fetchone()
            assert row
            if row[0] >= outcome.num_answered:
                break
            if time.monotonic() > deadline:
                raise LostRowsError(f"{outcome.num_answered} calls were answered, {row[0]} rows came")
            time.sleep(_POLL_SECONDS)
        if row[0] > outcome.num_answered + outcome.num_failed:
            raise LostRowsError(f"{outcome.num_answered} calls were answered, and {row[0]} rows came")
        if row[1] < outcome.num_answered:
            raise LostRowsError(f"of {row[0]} rows only {row[1]} have all ids and logprobs")
        self._after = self._last()


@contextmanager
def running_slipstream(
    directory: Path,
    upstream: int,
    ledger: Ledger,
    *,
    num_workers: int = 1,
    name: str = "slipstream",
    settings: Mapping[str, str] | None = None,
) -> Iterator[Contender]:
    (port,) = free_ports(1)
    home = directory / f"{name}-{port}"
    home.mkdir()
    configured = environment(
        DATABASE_URL=ledger.url,
        SLIPSTREAM_UPSTREAM_URLS=f"http://127.0.0.1:{upstream}",
        SLIPSTREAM_BASE_MODEL=BASE_MODEL,
        SLIPSTREAM_ADAPTERS=str(home / "adapters"),
        SLIPSTREAM_SPOOL=str(home / "spool"),
        SLIPSTREAM_PORT=str(port),
        SLIPSTREAM_WORKERS=str(num_workers),
        **(settings or {}),
    )
    spec = ChildSpec(
        name,
        "Its log says why.",
        lambda: ask_http(f"http://127.0.0.1:{port}/ready"),
        python("-m", "slipstream", "proxy"),
        configured,
        start_seconds=60,
    )
    with started(spec, directory) as tree:
        yield Contender(name, port, tree, ledger.rows.settle, ledger.tree)
