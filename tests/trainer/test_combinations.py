"""However a policy combines judgements, equal rewards teach exactly nothing: replies are compared with replies."""

from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.identifiers import choice_id
from ledger.recording import record_calls
from ledger.records import Attribution, CallRecord
from ledger.rewards.metrics import set_combination
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import Combination, IdentifiedBy, StepState
from tests.trainer.test_ladder import NOW
from tests.trainer.traffic import call, one, rows
from trainer.step import tick

SAMPLES = "SELECT exchange_id, reward, baseline, baseline_kind, advantage, reason FROM step_samples"


def combined(engine: Engine, combination: Combination) -> None:
    with engine.begin() as connection:
        set_combination(connection, "default", "default", combination)


def talk(
    engine: Engine, seed: int, rewards: list[float | None], group: str | None, **changes: Any
) -> list[CallRecord]:
    """A conversation of as many turns, each with a reward of its own, or none."""
    who = Attribution(call(seed, 1).call_id, IdentifiedBy.HEADER, external_id=f"talk {seed}", group_key=group)
    turns = [call(100 * seed + k, 1, attribution=who, **changes) for k, _ in enumerate(rewards)]
    with engine.begin() as connection:
        record_calls(connection, turns)
        for turn, value in zip(turns, rewards, strict=True):
            if value is not None:
                post_reward(connection, "default", RewardPost(str(turn.call_id), value=value))
    return turns


def found(engine: Engine) -> dict[Any, Any]:
    return {row[0]: tuple(row)[1:] for row in rows(engine, SAMPLES)}


@pytest.mark.parametrize("combination", Combination)
def test_equal_rewards_of_replies_teach_nothing_in_a_group(engine, make_trainer, combination) -> None:
    """Also where one conversation is longer, and one has a turn that nobody judged."""
    trainer = make_trainer(**NOW)
    combined(engine, combination)
    for seed, rewards in enumerate([[0.7, 0.7], [0.7, 0.7, 0.7], [0.7, None]]):
        talk(engine, seed, rewards, "task")
    assert tick(trainer).state is StepState.SKIPPED
    assert {row[1:] for row in found(engine).values()} == {
        (0.7, "explicit_group", 0.0, "no_variance"),
        (0.7, "explicit_group", None, "unscored"),
    }


@pytest.mark.parametrize("combination", Combination)
def test_equal_rewards_of_replies_teach_nothing_on_the_lower_rungs(engine, make_trainer, combination) -> None:
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0, step_groups=5)
    combined(engine, combination)
    for seed in range(5):
        talk(engine, seed, [0.7] * (1 + seed % 3), None)
    assert tick(trainer).state is StepState.SKIPPED
    talk(engine, 5, [0.7, 0.7], "task")
    talk(engine, 6, [0.7], "task")
    once = make_trainer(**NOW)
    assert tick(once).state is StepState.SKIPPED
    talk(engine, 7, [0.7, 0.7], "task")
    assert tick(once).state is StepState.SKIPPED
    assert {row[2:] for row in found(engine).values()} == {
        (kind, 0.0, "no_variance") for kind in ("running", "explicit_group", "stored_group")
    }
    assert rows(engine, "SELECT mean, variance, num_samples FROM route_baselines") == [(0.7, 0.0, 8)]
    assert one(engine, "SELECT live_version FROM policies") == 0


@pytest.mark.parametrize("combination", Combination)
def test_a_reply_is_compared_with_replies_however_they_are_combined(
    engine, make_trainer, combination
) -> None:
    """Talks of (1, 0) and (0.5): baseline 0.5 (1, 0.5 and 0 would be the talks' sums and smallest)."""
    trainer = make_trainer(**NOW)
    combined(engine, combination)
    praised, blamed = talk(engine, 1, [1.0, 0.0], "task")
    (other,) = talk(engine, 2, [0.5], "task")
    assert tick(trainer).state is StepState.PUBLISHED
    samples = found(engine)
    assert samples[choice_id(praised.call_id, 0)] == (1.0, 0.5, "explicit_group", 0.5, None)
    assert samples[choice_id(blamed.call_id, 0)] == (0.0, 0.5, "explicit_group", -0.5, None)
    assert samples[choice_id(other.call_id, 0)] == (0.5, 0.5, "explicit_group", 0.0, None)


@pytest.mark.parametrize("combination", Combination)
def test_equal_rewards_of_a_reply_and_of_a_whole_conversation_teach_nothing(
    engine, make_trainer, combination
) -> None:
    trainer = make_trainer(**NOW)
    combined(engine, combination)
    for seed, rewards in enumerate([[0.7, None], [None, None]]):
        first, *_ = talk(engine, seed, rewards, "task")
        with engine.begin() as connection:
            post = RewardPost(str(first.attribution.trajectory_id), value=0.7)
            post_reward(connection, "default", post)
    assert tick(trainer).state is StepState.SKIPPED
    assert [row[0] for row in found(engine).values()] == [0.7] * 4
