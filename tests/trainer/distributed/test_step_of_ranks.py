"""A whole step whose update two processes compute: the worker's story is the same, and so is the adapter."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from ledger.vocabulary import StepState
from tests.trainer.distributed.test_ranks import SEVERAL
from tests.trainer.traffic import add_group
from trainer import build
from trainer.adapter_files import check_adapter
from trainer.learned import learn
from trainer.model_cache import ModelCache
from trainer.parent import Parent
from trainer.step import Trainer, tick


@pytest.fixture
def trainer(make_trainer: Callable[..., Trainer]) -> Iterator[Trainer]:
    made = make_trainer(**SEVERAL)
    yield made
    made.ranks.end()


def test_a_step_of_two_processes_publishes_the_adapter_of_one(engine, trainer, settings_of: Any) -> None:
    for number in range(3):
        add_group(engine, number, [1.0, 0.0])
    step = tick(trainer)
    assert step is not None
    assert step.state is StepState.PUBLISHED
    with engine.connect() as connection:
        samples = build.read_samples(connection, step)
    alone = settings_of(trust_log_ratio=50.0)
    expected = learn(ModelCache().get(alone), Parent(), samples, alone).adapter
    saved = check_adapter(trainer.settings.adapters / f"default@{step.version}")
    for name, tensor in expected.items():
        assert torch.allclose(saved[name], tensor, rtol=0, atol=1e-5), name
