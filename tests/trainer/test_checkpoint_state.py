"""What a checkpoint tells of how it was made: schedule, chance and data, so that two attempts can be compared (I9)."""

import json
from dataclasses import replace

import pytest
import torch

from tests.trainer.tiny import random_samples
from tests.trainer.traffic import add_group, rows
from trainer import step as story
from trainer.position import data_position
from trainer.randomness import seeded
from trainer.schedule import learning_rate_at, scheduler_state
from trainer.step import tick

CPU = torch.device("cpu")


def state_of(trainer, version: int = 1) -> dict:
    path = trainer.settings.checkpoints_root / f"default@{version}" / "state.json"
    return json.loads(path.read_text())


def test_a_checkpoint_says_where_schedule_chance_and_data_stand(engine, make_trainer) -> None:
    trainer = make_trainer(warmup_steps=4, learning_rate=1e-3, seed=5)
    exchange_ids = add_group(engine, 1, [1.0, 0.0])
    tick(trainer)
    state = state_of(trainer)
    assert state["scheduler"] == {
        "optimizer_step": 1, "warmup_steps": 4, "learning_rate": 2.5e-4, "next_learning_rate": 5e-4,
    }  # fmt: skip
    assert state["random"]["seed"] == 5 * 1_000_003 + 1
    assert state["random"]["is_used"] is False
    assert state["data"]["num_exchanges"] == 2
    assert state["data"]["newest_exchange_id"] == str(max(exchange_ids))
    (used,) = rows(engine, "SELECT sum(num_completion_tokens) AS n FROM step_samples WHERE is_used")
    assert state["data"]["num_tokens"] == used.n


def test_the_schedule_goes_on_from_the_parents_count(engine, make_trainer) -> None:
    trainer = make_trainer(warmup_steps=4, learning_rate=1e-3)
    for seed in (1, 2):
        add_group(engine, seed, [1.0, 0.0])
        tick(trainer)
    before, after = state_of(trainer, 1)["scheduler"], state_of(trainer, 2)["scheduler"]
    assert after["learning_rate"] == before["next_learning_rate"] == 5e-4
    assert rows(engine, "SELECT (metrics->>'learning_rate')::float FROM training_steps ORDER BY version") == [
        (2.5e-4,),
        (5e-4,),
    ]


def test_without_a_warm_up_the_rate_is_the_settings(settings_of) -> None:
    assert learning_rate_at(settings_of(learning_rate=0.5), 1) == 0.5
    assert scheduler_state(settings_of(learning_rate=0.5, warmup_steps=2), 9)["next_learning_rate"] == 0.5


def test_i9_chance_in_a_step_depends_on_its_seed_alone(engine, make_trainer, monkeypatch) -> None:
    """I9: whatever was drawn in the process before; and what comes after is not touched either."""
    drawn, real = [], story.learn

    def drawing(*arguments: object) -> object:
        drawn.append(torch.rand(3).tolist())
        return real(*arguments)

    monkeypatch.setattr(story, "learn", drawing)
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    torch.manual_seed(99)
    expected = torch.rand(1)
    torch.manual_seed(99)
    tick(trainer)
    assert torch.equal(torch.rand(1), expected)
    with seeded(1, CPU):
        assert drawn == [torch.rand(3).tolist()]
    assert state_of(trainer)["random"]["is_used"] is True


@pytest.mark.parametrize("seed", [0, 7, -3])
def test_two_attempts_that_drew_the_same_have_the_same_digest(seed: int) -> None:
    found = []
    for number in (2, 2, 3):
        with seeded(seed, CPU) as randomness:
            torch.rand(number)
        found.append(randomness.as_state())
    assert found[0] == found[1] != found[2]


def test_the_data_position_is_of_tokens_advantages_and_their_order() -> None:
    samples = random_samples(3)
    position = data_position(samples)
    assert position == data_position(random_samples(3))
    assert position["num_samples"] == 6
    first = samples[0]
    louder = replace(first, spans=tuple(replace(span, advantage=9.0) for span in first.spans))
    others = ([*samples[1:], first], [louder, *samples[1:]], samples[1:])
    digests = {data_position(each)["sha256"] for each in (samples, *others)}
    assert len(digests) == 4
    assert data_position([])["newest_exchange_id"] is None
