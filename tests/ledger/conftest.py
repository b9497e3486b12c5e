"""A world of some months in a database of its own, for tests that only read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection

from bench.ledger.loading import load
from bench.ledger.traffic import Traffic
from bench.ledger.world import Plan, Task
from ledger.database import database_address
from tests.conftest import drop_database, new_database

PLAN = Plan(20_000, datetime(2026, 11, 29, 12, tzinfo=UTC), num_days=90, num_versions=12, num_prompts=300)


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
