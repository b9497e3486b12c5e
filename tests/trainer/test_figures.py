"""What a real step writes about itself is the documented list, both ways; and what single figures are."""

import json

import pytest

from ledger.figures import BREAKDOWNS, BY_NAME, OF_COPYING, SOMETIMES
from ledger.step_metrics import last_steps
from ledger.vocabulary import StepState
from tests.trainer.tiny import turn
from tests.trainer.traffic import add_group, one
from trainer.grpo.samples import merge_turns
from trainer.lengths import length_metrics
from trainer.step import tick
from trainer.transitions import recorded


def test_a_published_step_writes_every_figure_of_the_list_and_no_other(engine, make_trainer) -> None:
    """B113: reward, gradient norm and version are there, not the loss alone."""
    trainer = make_trainer(group_deadline_seconds=0.0, kl=0.1)
    add_group(engine, 1, [1.0, 0.0, None])
    add_group(engine, 2, [0.5, 0.5])
    assert tick(trainer).state is StepState.PUBLISHED
    metrics = one(engine, "SELECT metrics FROM training_steps")
    always = BY_NAME.keys() - SOMETIMES - OF_COPYING | {"base_kl"}
    assert metrics.keys() == always | BREAKDOWNS.keys() - OF_COPYING | {
        "has_parent_moments",
        "gradient_checkpointing",
    }
    assert all(metrics[name] is not None for name in always)
    with engine.connect() as connection:
        (row,) = last_steps(connection, None, None, 1)
    assert {name: row[name] for name in metrics.keys() & BY_NAME.keys()} == {
        name: value for name, value in metrics.items() if name in BY_NAME
    }
    assert row["tokens_dropped"] == sum(metrics["tokens_dropped"].values())
    assert row["grad_norm"] > 0


def test_a_step_that_learned_nothing_tells_its_rewards_all_the_same(engine, make_trainer) -> None:
    """B110: it is seen that every group was degenerate."""
    trainer = make_trainer(step_groups=2)
    add_group(engine, 1, [1.0, 1.0])
    add_group(engine, 2, [0.0, 0.0])
    assert tick(trainer).state is StepState.SKIPPED
    with engine.connect() as connection:
        (row,) = last_steps(connection, None, None, 1)
    rewards = (row["reward_mean"], row["reward_spread"], row["reward_min"], row["reward_max"])
    assert rewards == (0.5, 0.5, 0.0, 1.0)
    assert (row["frac_groups_without_variance"], row["advantage_spread"]) == (1.0, 0.0)
    assert (row["loss"], row["grad_norm"], row["seconds_publish"]) == (None, None, None)
    assert row["tokens_dropped"] == row["drops"]["no_variance"] > 0


def test_staleness_is_that_of_the_used_exchanges(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    tick(trainer)
    trainer = make_trainer(step_groups=2)
    add_group(engine, 2, [1.0, 0.0], version=0)
    add_group(engine, 3, [1.0, 0.0], version=1)
    assert tick(trainer).version == 2
    found = one(engine, "SELECT ARRAY[staleness_mean, staleness_max] FROM v1.step_metrics WHERE version = 2")
    assert found == [0.5, 1.0]


def test_lengths_are_those_of_each_turn() -> None:
    """Prompts of 4, 7 and 2 tokens, completions of 2, 1 and 3."""
    first = turn(1, [1, 2, 3, 4], [5, 6])
    second = turn(2, [1, 2, 3, 4, 5, 6, 7], [8])
    other = turn(3, [1, 2], [5, 6, 7])
    samples = [*merge_turns([first, second]), *merge_turns([other])]
    assert length_metrics(samples) == {
        "prompt_tokens_mean": pytest.approx(13 / 3),
        "prompt_tokens_max": 7,
        "completion_tokens_mean": 2.0,
        "completion_tokens_max": 3,
    }


def test_lengths_of_nothing_are_unknown() -> None:
    assert set(length_metrics([]).values()) == {None}


def test_a_figure_that_is_not_finite_is_null() -> None:
    """jsonb refuses Infinity: a step with one odd token would fail for it."""
    figures = {"ratio_max": float("inf"), "loss": float("nan"), "entropy": 0.5, "tokens_dropped": {"a": 1}}
    assert json.loads(recorded(figures)) == {
        "ratio_max": None,
        "loss": None,
        "entropy": 0.5,
        "tokens_dropped": {"a": 1},
    }
