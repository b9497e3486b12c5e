"""A proxy process of its own, a fake vLLM behind it, and one worker an SDK, all for the whole session."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from sqlalchemy import Connection

from ledger.database import database_address, sync_engine
from tests.conftest import drop_database, new_database
from tests.fakes.vllm import FakeVllm, Faults, running_fake_vllm
from tests.proxy.running import RunningProxy, proxy_process, settings_for
from tests.sdk.install import install
from tests.sdk.worker import Worker, running_worker


@pytest.fixture(scope="session")
def upstream() -> Iterator[FakeVllm]:
    with running_fake_vllm() as fake:
        fake.known_paths_only = True  # no version but the base
        yield fake


@pytest.fixture(scope="session")
def running(
    administrator: Connection, template_url: str, upstream: FakeVllm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningProxy]:
    url = new_database(administrator, str(database_address(template_url).database))
    engine = sync_engine(url)
    settings = settings_for(url, upstream.url, tmp_path_factory.mktemp("sdk"))
    with proxy_process(settings, engine) as (proxy, _):
        yield proxy
    engine.dispose()
    drop_database(administrator, url)


@pytest.fixture
def proxy(running: RunningProxy) -> RunningProxy:
    return running


@pytest.fixture
def vllm(upstream: FakeVllm) -> Iterator[FakeVllm]:
    """Without the faults and replays of the test before."""
    upstream.faults, upstream.replays, upstream.serves_embeddings = Faults(), [], False
    upstream.seen.clear()
    upstream.num_aborted = 0
    yield upstream
    upstream.faults, upstream.replays = Faults(), []


OPENAI_SDKS = ["openai-python", "openai-python-1", "openai-node"]


@pytest.fixture(scope="session")
def worker_of() -> Iterator[Callable[[str], Worker]]:
    """Starts a worker when it is first needed."""
    install()
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(running_worker(name)))


@pytest.fixture(params=OPENAI_SDKS)
def sdk(request: pytest.FixtureRequest, worker_of: Callable[[str], Worker]) -> Worker:
    return worker_of(request.param)
