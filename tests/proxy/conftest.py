"""A proxy on a real loopback port, a fake vLLM behind it, a real Postgres behind both."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Connection, Engine

from ledger.database import database_address, sync_engine
from ledger.vocabulary import Scope
from tests.conftest import drop_database, new_database
from tests.fakes.vllm import FakeVllm, running_fake_vllm
from tests.proxy.callers import make
from tests.proxy.running import RunningProxy, running_proxy, settings_for

settings.register_profile("shared cores", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared cores")

StartProxy = Callable[..., RunningProxy]


@pytest.fixture
def vllm() -> Iterator[FakeVllm]:
    with running_fake_vllm() as fake:
        yield fake


@pytest.fixture
def start_proxy(database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path) -> Iterator[StartProxy]:
    """Starts a proxy with the settings given; it stops at the end of the test."""
    with ExitStack() as stack:

        def start(*, awaits_ready: bool = True, upstream: str = vllm.url, **values: Any) -> RunningProxy:
            given = settings_for(database_url, upstream, tmp_path, **values)
            return stack.enter_context(running_proxy(given, engine, awaits_ready=awaits_ready))

        yield start


@pytest.fixture
def proxy(start_proxy: StartProxy) -> RunningProxy:
    return start_proxy()


@pytest.fixture(scope="session")
def shared_proxy(
    administrator: Connection, template_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningProxy]:
    """One proxy for all tests that look at nothing but replies."""
    url = new_database(administrator, str(database_address(template_url).database))
    engine = sync_engine(url)
    with running_fake_vllm() as fake:
        given = settings_for(url, fake.url, tmp_path_factory.mktemp("shared"))
        with running_proxy(given, engine) as proxy:
            yield proxy
    engine.dispose()
    drop_database(administrator, url)


@pytest.fixture
def question() -> dict[str, Any]:
    """The first message of a conversation that no other test has."""
    return {"role": "user", "content": f"Hi, I am {uuid4().hex}."}  # the Valkey is shared by all tests


@pytest.fixture
def two(start_proxy: StartProxy, valkey_url: str, tmp_path: Path) -> tuple[RunningProxy, RunningProxy]:
    """Proxies that share a Valkey and the ledger, and nothing else."""
    a, b = (start_proxy(redis_url=valkey_url, spool=tmp_path / name) for name in "ab")
    return a, b


@pytest.fixture
def admin_key(engine: Engine) -> str:
    return make(engine, Scope.ADMIN)


@pytest.fixture
def closed(admin_key: str, proxy: RunningProxy) -> RunningProxy:
    """A proxy that started with a key in the database."""
    return proxy
