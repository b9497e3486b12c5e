"""Fixtures of the trainer's tests: the tiny model, and settings that need no environment."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings as hypothesis_settings
from sqlalchemy import Engine

from ledger.identifiers import new_id
from tests.trainer.fake_replica import FakeReplica, running_replica
from tests.trainer.tiny import save_tiny_model
from tests.trainer.traffic import begin_policy
from trainer.model_cache import ModelCache
from trainer.policy_model import LoraShape, PolicyModel
from trainer.settings import TrainerSettings
from trainer.step import Trainer

# A busy machine is no failure of a law; fewer examples of what runs torch each time.
hypothesis_settings.register_profile("trainer", deadline=None, max_examples=50)
hypothesis_settings.load_profile("trainer")


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def model(tiny_path: Path) -> PolicyModel:
    return PolicyModel.load(str(tiny_path), LoraShape(), seed=1, device=torch.device("cpu"))


@pytest.fixture
def settings_of(tiny_path: Path, tmp_path: Path) -> Callable[..., TrainerSettings]:
    def make(**changes: Any) -> TrainerSettings:
        values = {
            "database_url": "postgresql://nowhere.invalid/ledger",
            "redis_url": "redis://127.0.0.1:1/0",
            "upstream_urls": "http://127.0.0.1:1",
            "base_model": str(tiny_path),
            "adapters": tmp_path / "adapters",
            "step_groups": 1,
            "step_min_tokens": 0,
            "min_seconds_between_versions": 0,
            "retry_seconds": 0.01,
        }
        return TrainerSettings(**(values | changes))

    return make


@pytest.fixture
def replica(tiny_path: Path) -> Iterator[FakeReplica]:
    with running_replica(tiny_path) as running:
        yield running


@pytest.fixture
def make_trainer(
    engine: Engine, database_url: str, replica: FakeReplica, settings_of: Callable[..., TrainerSettings]
) -> Callable[..., Trainer]:
    """A trainer on a fresh database whose policy is registered, with one fake replica."""
    cache = ModelCache()

    def make(**changes: Any) -> Trainer:
        settings = settings_of(
            **(
                {"database_url": database_url, "upstream_urls": replica.url, "trust_log_ratio": 50.0}
                | changes
            )
        )
        begin_policy(engine, settings.base_model)
        return Trainer(settings, engine, cache, owner=f"test:{new_id()}")

    return make
