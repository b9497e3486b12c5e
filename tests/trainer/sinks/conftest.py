"""A line of steps to copy, and a sink that remembers what it got: behind the same interface as the real ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.figures import FIGURES
from ledger.policies import Policy, ensure_policy
from tests.ledger import steps


class FakeSink:
    """`broken`: what writing raises."""

    name = "fake"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[tuple[str, int]] = []
        self.num_closed = 0
        self.broken: Exception | None = None

    def write(self, policy: Policy, row: dict[str, Any]) -> None:
        if self.broken is not None:
            raise self.broken
        self.written.append((policy.line, row["version"]))

    def close(self) -> None:
        self.num_closed += 1


@pytest.fixture
def sink(tmp_path: Path) -> FakeSink:
    return FakeSink(tmp_path / "fake")


@pytest.fixture
def policy(engine: Engine) -> Policy:
    with engine.begin() as connection:
        return ensure_policy(connection, name="default", base_model="m")


@pytest.fixture
def add_step(engine: Engine) -> Callable[..., None]:
    def add(policy: Policy, version: int, state: str = "published", **figures: Any) -> None:
        metrics = {figure.name: version + (0 if figure.is_whole else 0.5) for figure in FIGURES}
        ended = {"finished_at": None} if state == "saved" else {}
        with engine.begin() as connection:
            steps.add_step(connection, policy, version, state, metrics=metrics | figures, **ended)

    return add
