from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import Engine

from tests.fakes.scorer import FakeScorer, running_fake_scorer
from tests.fakes.vllm import FakeVllm, running_fake_vllm
from tests.trainer.siblings.originals import siblings_of
from trainer.siblings.siblings import Siblings


@pytest.fixture
def vllm() -> Iterator[FakeVllm]:
    with running_fake_vllm() as fake:
        yield fake


@pytest.fixture
def scorer() -> Iterator[FakeScorer]:
    with running_fake_scorer() as fake:
        yield fake


@pytest.fixture
def siblings(engine: Engine, vllm: FakeVllm, scorer: FakeScorer) -> Callable[..., Siblings]:
    return partial(siblings_of, engine, [vllm], scorer.url)
