"""Fixtures of the trainer's tests: the tiny model, and settings that need no environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.tiny import save_tiny_model
from trainer.policy_model import LoraShape, PolicyModel
from trainer.settings import TrainerSettings


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
            "retry_seconds": 0.01,
        }
        return TrainerSettings(**(values | changes))

    return make
