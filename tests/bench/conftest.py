"""The bench's mock as a process of its own."""

from collections.abc import Iterator

import pytest

from bench.gateway.children import environment, python, started
from slipstream.http import ask_http
from slipstream.local.child import ChildSpec
from slipstream.local.ports import free_ports


@pytest.fixture(scope="session")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    (port,) = free_ports(1)
    command = python("-m", "bench.gateway.upstream", str(port))
    url = f"http://127.0.0.1:{port}"
    spec = ChildSpec("mock", "", lambda: ask_http(f"{url}/health"), command, environment())
    with started(spec, tmp_path_factory.mktemp("mock")):
        yield url
