"""Fixtures of the ledger's tests: an empty ledger of two projects, and a world of some months for tests that only read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, Engine

from bench.ledger.loading import load
from bench.ledger.traffic import Traffic
from bench.ledger.world import Plan, Task
from ledger.database import database_address, sync_engine
from ledger.partitions import ensure_partitions, month_start
from ledger.policies import ensure_policy
from ledger.spool.spool import MEMORY_BYTES
from tests.conftest import drop_database, new_database
from tests.ledger.retained import NOW

PLAN = Plan(20_000, datetime(2026, 11, 29, 12, tzinfo=UTC), num_days=90, num_versions=12, num_prompts=300)


@pytest.fixture
def ledger(connection: Connection) -> Connection:
    """Two projects, `default` and `acme`; `default` has another policy, `other`. Partitions from January 2026 on."""
    for name, project in (("default", "default"), ("other", "default"), ("default", "acme")):
        ensure_policy(connection, name=name, base_model="base", project=project)
    connection.commit()
    ensure_partitions(connection, NOW, also=[month_start(NOW, -offset) for offset in range(11)])
    return connection


@dataclass(frozen=True)
class LoadedWorld:
    url: str
    plan: Plan
    traffic: Traffic
    tasks: list[Task]


@pytest.fixture(scope="session")
def world(administrator: Connection, template_url: str) -> Iterator[LoadedWorld]:
    url = new_database(administrator, str(database_address(template_url).database))
    traffic = Traffic(PLAN)
    yield LoadedWorld(url, PLAN, traffic, load(url, PLAN, traffic))
    drop_database(administrator, url)


@pytest.fixture(params=[0, MEMORY_BYTES], ids=["files", "memory"])
def memory_bytes(request: pytest.FixtureRequest) -> int:
    """Where finished calls are read from: the files, or memory while they are few."""
    value: int = request.param
    return value


@pytest.fixture
def elsewhere(administrator: Connection, template_url: str) -> Iterator[Engine]:
    """Another database."""
    url = new_database(administrator, str(database_address(template_url).database))
    engine = sync_engine(url)
    yield engine
    engine.dispose()
    drop_database(administrator, url)
