"""Several optimizer steps in one: batches, their order, and the lease between rows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.vocabulary import StepKind, StepState
from tests.trainer.tiny import random_samples
from trainer.claim import Step
from trainer.errors import BatchError, StepStoppedError
from trainer.imitation.learning import batches, learn
from trainer.material import Material
from trainer.parent import Parent


def step_of(seed: int = 0, **arguments: Any) -> Step:
    wish = {"from": "demonstrations", **arguments}
    return Step(None, None, 1, 0, StepState.BUILT, 1, 1, seed, {"sft": wish}, {}, StepKind.SFT)


@given(
    st.lists(st.integers(1, 9), max_size=12),
    st.integers(1, 20),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_every_epoch_has_each_item_once_in_batches_within_their_limit(lengths, most, epochs, seed) -> None:
    items = list(enumerate(lengths))
    found = list(batches(items, lambda item: item[1], most, epochs, seed))
    assert sorted(item for batch in found for item in batch) == sorted(items * epochs)
    assert all(len(batch) == 1 or sum(n for _, n in batch) <= most for batch in found)
    assert found == list(batches(items, lambda item: item[1], most, epochs, seed))


def test_each_epoch_has_another_order_and_each_seed_too() -> None:
    orders = [[batch[0] for batch in batches(range(20), lambda _: 1, 1, 2, seed)] for seed in (1, 2)]
    assert orders[0][:20] != orders[0][20:]
    assert orders[0] != orders[1]


def test_the_same_seed_makes_the_same_bytes_and_another_one_others(model, settings_of) -> None:
    material = Material(tuple(random_samples(1)))
    settings = settings_of(sft_batch_tokens=20)
    made = []
    for seed in (1, 1, 2):
        learned = learn(model, Parent(), material, settings, step_of(seed))
        made.append({name: value.clone() for name, value in learned.adapter.items()})
    same = [all((made[0][name] == other[name]).all() for name in other) for other in made[1:]]
    assert same == [True, False]


def test_the_lease_is_asked_for_before_every_row_and_a_lost_one_ends_it(model, settings_of) -> None:
    material, settings = Material(tuple(random_samples(1))), settings_of(sft_batch_tokens=20, row_tokens=10)
    asked = []
    learned = learn(model, Parent(), material, settings, step_of(epochs=3), lambda: asked.append(1))
    assert len(asked) >= learned.metrics["num_optimizer_steps"] > 3

    def lost() -> None:
        raise StepStoppedError

    with pytest.raises(StepStoppedError):
        learn(model, Parent(), material, settings, step_of(), lost)


def test_a_number_that_is_not_finite_ends_it_before_the_optimizer(model, settings_of) -> None:
    import torch

    poisoned = {name: torch.full_like(value, float("nan")) for name, value in model.lora.items()}
    with pytest.raises(BatchError, match="not finite"):
        learn(model, Parent(poisoned), Material(tuple(random_samples(1))), settings_of(), step_of())
