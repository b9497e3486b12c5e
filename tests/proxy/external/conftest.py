"""Fixtures of the tests of external models. Starting LiteLLM takes seconds, so most tests share one proxy and its child."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text

from ledger.database import database_address, sync_engine
from tests.conftest import drop_database, new_database
from tests.fakes.providers import FakeProvider, running_fake_provider
from tests.fakes.vllm import running_fake_vllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually, running_proxy, settings_for

OPENAI_KEY = "sk-canary-openai-5d41402abc4b2a76"
ANTHROPIC_KEY = "sk-ant-canary-7d793037a0760186"


def external_settings(provider: FakeProvider) -> dict[str, str]:
    return {
        "external_providers": "openai,anthropic",
        "external_base_urls": f"openai={provider.url}/v1,anthropic={provider.url}",
    }


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[FakeProvider]:
    with running_fake_provider() as fake:
        yield fake


@pytest.fixture(scope="module")
def shared_external_proxy(
    administrator: Connection,
    template_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    shared_provider: FakeProvider,
) -> Iterator[RunningProxy]:
    url = new_database(administrator, str(database_address(template_url).database))
    engine = sync_engine(url)
    with running_fake_vllm() as vllm, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", OPENAI_KEY)
        patch.setenv("ANTHROPIC_API_KEY", ANTHROPIC_KEY)
        directory = tmp_path_factory.mktemp("external")
        settings = settings_for(url, vllm.url, directory, **external_settings(shared_provider))
        with running_proxy(settings, engine) as proxy:
            yield proxy
    engine.dispose()
    drop_database(administrator, url)


@pytest.fixture
def provider(shared_provider: FakeProvider) -> FakeProvider:
    """Well, and without a memory of earlier tests."""
    shared_provider.forget()
    return shared_provider


@pytest.fixture
def external_proxy(shared_external_proxy: RunningProxy, provider: FakeProvider) -> RunningProxy:
    """Without rows of earlier tests, which may still be on their way."""
    metric = shared_external_proxy.metric
    eventually(lambda: metric("slipstream_committed_total") == metric("slipstream_spooled_total"))
    with shared_external_proxy.engine.begin() as connection:
        connection.execute(text("TRUNCATE exchanges, trajectories, trajectory_names, reward_events CASCADE"))
    return shared_external_proxy


@pytest.fixture
def own_external_proxy(
    start_proxy: StartProxy, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> RunningProxy:
    """One that has not started LiteLLM yet."""
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    return start_proxy(**external_settings(provider))


def events_of(stream: str) -> list[Any]:
    datas = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]
