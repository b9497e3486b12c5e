"""Fixtures shared by all tests: one Postgres and one Valkey a session, one migrated database a test."""

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from ledger.database import database_address, sync_engine
from migrations import migrate
from tests.pgbouncer import pooled_url, running_pgbouncer
from tests.servers import running_postgres, running_valkey

# Before anything imports torch: a tiny model's sums take longer shared by two threads, which spin, than on one. Children inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A superuser's URL: the embedded server, or TEST_DATABASE_URL."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
        return
    with (
        tempfile.TemporaryDirectory(prefix="slp-", dir="/tmp") as directory,
        running_postgres(Path(directory)) as url,
    ):
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The embedded Valkey, or TEST_REDIS_URL."""
    if given := os.environ.get("TEST_REDIS_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="slp-") as directory, running_valkey(Path(directory)) as url:
        yield url


@pytest.fixture(scope="session")
def administrator(postgres_url: str) -> Iterator[Connection]:
    """Creates and drops databases."""
    engine = create_engine(database_address(postgres_url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def new_database(administrator: Connection, template: str = "template0") -> str:
    """The URL of a new database."""
    name = f"test_{uuid4().hex}"
    administrator.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    return database_address(str_of(administrator)).set(database=name).render_as_string(hide_password=False)


def str_of(administrator: Connection) -> str:
    return administrator.engine.url.render_as_string(hide_password=False)


def drop_database(administrator: Connection, url: str) -> None:
    administrator.execute(text(f"DROP DATABASE {database_address(url).database} WITH (FORCE)"))


@pytest.fixture(scope="session")
def template_url(administrator: Connection) -> Iterator[str]:
    url = new_database(administrator)
    migrate(url)
    yield url
    drop_database(administrator, url)


@pytest.fixture(scope="session")
def pgbouncer_port(postgres_url: str) -> Iterator[int]:
    """A PgBouncer in transaction mode before the tests' Postgres. Skips where it is not installed."""
    with (
        tempfile.TemporaryDirectory(prefix="slb-", dir="/tmp") as directory,
        running_pgbouncer(Path(directory), postgres_url) as port,
    ):
        yield port


@pytest.fixture
def through(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """How tests reach a database: as it is, or all of them through PgBouncer (TEST_PGBOUNCER=1)."""
    if not os.environ.get("TEST_PGBOUNCER"):
        return str
    return partial(pooled_url, port=request.getfixturevalue("pgbouncer_port"))


@pytest.fixture
def empty_database_url(administrator: Connection, through: Callable[[str], str]) -> Iterator[str]:
    """A new database without our schema."""
    url = new_database(administrator)
    yield through(url)
    drop_database(administrator, url)


@pytest.fixture
def database_url(
    administrator: Connection, template_url: str, through: Callable[[str], str]
) -> Iterator[str]:
    """A new database with our schema, cloned from the migrated template."""
    url = new_database(administrator, str(database_address(template_url).database))
    yield through(url)
    drop_database(administrator, url)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = sync_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    """One transaction; what it does not commit is rolled back."""
    with engine.connect() as connection:
        yield connection
