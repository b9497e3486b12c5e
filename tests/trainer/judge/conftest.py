"""Fixtures of the judge's tests. LiteLLM takes seconds to import, so tests share one child where they may."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.fakes.judge import FakeJudge, running_fake_judge
from tests.trainer.traffic import begin_policy
from trainer.judge.model import JudgeModel
from trainer.judge.process import LitellmProcess
from trainer.judge.rubric import DEFAULT_RUBRIC
from trainer.judge.run import Judge
from trainer.judge.settings import JudgeSettings

KEY = "sk-canary-judge-5d41402abc4b2a76"
MakeJudge = Callable[..., Judge]


@pytest.fixture(scope="session")
def shared_judge() -> Iterator[FakeJudge]:
    with running_fake_judge() as fake:
        yield fake


@pytest.fixture
def fake(shared_judge: FakeJudge) -> FakeJudge:
    """Well, and without a memory of earlier tests."""
    shared_judge.forget()
    return shared_judge


@pytest.fixture(scope="session")
def process() -> Iterator[LitellmProcess]:
    with LitellmProcess() as running:
        yield running


@pytest.fixture
def make_judge(
    database_url: str, engine: Engine, fake: FakeJudge, process: LitellmProcess, tiny_path: Path
) -> MakeJudge:
    """A judge on a fresh database whose policy is registered, that asks the fake through the real LiteLLM."""
    begin_policy(engine, str(tiny_path))

    def make(*, rubric: str = DEFAULT_RUBRIC, rescores: bool = False, **changes: Any) -> Judge:
        values = {
            "database_url": database_url,
            "model": "openai/gpt-4o",
            "base_url": fake.url,
            "api_key": KEY,
        }
        settings = JudgeSettings(**(values | changes))
        return Judge(settings, JudgeModel(settings, process), rubric, rescores)

    return make
