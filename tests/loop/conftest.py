"""One real stack a session: vLLM on SmolLM2, PostgreSQL, Valkey, proxy, worker, beat.

The model is made once per checkout, in .slipstream/test-models.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loop.stack import ROOT, Stack

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.loop)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def test_model() -> Path:
    target = ROOT / ".slipstream" / "test-models" / "SmolLM2-135M-Instruct"
    command = [sys.executable, "-m", "slipstream.local.prepare_model", str(target)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=500)
    return target


@pytest.fixture(scope="session")
def stack(test_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("home"), test_model)
    try:
        stack.start("--model", str(test_model))
        yield stack
    finally:
        if stack.process.poll() is None:
            stack.interrupt()


@pytest.fixture(scope="session")
def real_vllm_url(stack: Stack) -> str:
    """The base address of a real vLLM with adapters enabled, which serves SmolLM2 under its directory's path."""
    return stack.upstream_url
