"""One real proxy for all tests here, a fake vLLM behind it, and a middleman before it that each test has to itself."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from ledger.database import database_address, sync_engine
from slipstream import Client
from slipstream.client.address import Address
from slipstream.client.trajectory import _client_at
from tests.conftest import drop_database, new_database
from tests.fakes.middleman import Middleman, running_middleman
from tests.fakes.vllm import running_fake_vllm
from tests.proxy.running import RunningProxy, running_proxy, settings_for

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="session")
def proxy(
    administrator: Connection, template_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningProxy]:
    url = new_database(administrator, str(database_address(template_url).database))
    engine = sync_engine(url)
    with running_fake_vllm() as fake:
        given = settings_for(url, fake.url, tmp_path_factory.mktemp("client"))
        with running_proxy(given, engine) as running:
            yield running
    engine.dispose()
    drop_database(administrator, url)


@pytest.fixture
def middleman(proxy: RunningProxy) -> Iterator[Middleman]:
    with running_middleman(proxy.url) as between:
        yield between


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Of a program that goes to the proxy through the middleman, if its test has one."""
    for name in ("SLIPSTREAM_URL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    if "middleman" in request.fixturenames:
        monkeypatch.setenv("SLIPSTREAM_URL", request.getfixturevalue("middleman").url)
    yield
    _client_at(Address.of(None, None)).close()
    _client_at.cache_clear()


@pytest.fixture
def client_of() -> Iterator[Callable[..., Client]]:
    """Makes clients that are closed at the end."""
    with ExitStack() as stack:
        yield lambda *given, **options: stack.enter_context(Client(*given, **options))


@pytest.fixture
def client(middleman: Middleman, client_of: Callable[..., Client]) -> Client:
    return client_of()


@pytest.fixture
def name() -> str:
    """A trajectory that no other test knows."""
    return f"run-{uuid4().hex}"


Events = Callable[[str], list[Any]]


@pytest.fixture
def events(proxy: RunningProxy) -> Events:
    """The reward events of a target that no call has named, in order."""
    sql = "SELECT * FROM reward_events WHERE target = :target ORDER BY id"
    return lambda target: proxy.rows(sql, target=target)
