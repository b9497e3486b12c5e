"""Rewards that come when their group was trained, left out, or just claimed: the next step uses them, once."""

from typing import Any

import pytest
from sqlalchemy import Engine, text

from ledger.rewards.metrics import set_combination
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import Combination, StepState
from tests.trainer.test_ladder import NOW, add, add_lone, in_group
from tests.trainer.traffic import add_group, call, one, rows
from trainer import rewards as reads
from trainer import step as story
from trainer import transitions
from trainer.step import resume_or_claim, tick

USED = "SELECT reward, baseline, baseline_kind, num_baseline_samples FROM step_samples WHERE is_used"
GROUPS = "SELECT key, sequence, state FROM groups ORDER BY key, sequence"


def reward(engine: Engine, record: Any, value: float) -> None:
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(record.call_id), value=value))


def three(engine: Engine, rewards: list[float | None]) -> list[Any]:
    records = [in_group(call(k, 1), "task") for k in range(3)]
    add(engine, *records, rewards=rewards)
    return records


def test_a_late_reward_is_compared_with_the_group_that_was_trained(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    records = three(engine, [1.0, 0.0, None])
    assert tick(trainer).state is StepState.PUBLISHED
    reward(engine, records[2], 1.0)
    assert rows(engine, GROUPS) == [("task", 0, "trained"), ("task", 1, "open")]
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, f"{USED} ORDER BY step_id DESC, 1 LIMIT 1") == [(1.0, 0.5, "stored_group", 2)]
    assert rows(engine, GROUPS) == [("task", 0, "trained"), ("task", 1, "trained")]
    assert one(engine, "SELECT num_samples FROM route_baselines") == 3


def test_late_members_of_one_task_come_together(engine, make_trainer) -> None:
    """Two late ones, and one that was recorded after the step, are the next group of the key."""
    trainer = make_trainer(**NOW)
    records = [in_group(call(k, 1), "task") for k in range(5)]
    add(engine, *records[:4], rewards=[1.0, 0.0, None, None])
    tick(trainer)
    add(engine, records[4], rewards=[None])
    for record, value in zip(records[2:], (1.0, 0.0, 0.5), strict=True):
        reward(engine, record, value)
    assert rows(engine, "SELECT sequence, count(*) FROM groups AS g JOIN trajectories AS t"
                        " ON t.group_id = g.id GROUP BY 1 ORDER BY 1") == [(0, 2), (1, 3)]  # fmt: skip
    tick(trainer)
    assert one(engine, f"SELECT count(*) FROM ({USED} AND num_baseline_samples = 3) AS s") == 3


def test_i6_a_reward_that_was_used_and_is_changed_moves_nothing(engine, make_trainer) -> None:
    """I6: its group was trained once; that it changed is visible, and neither group nor baseline moves."""
    trainer = make_trainer(**NOW)
    records = three(engine, [1.0, 0.0, 0.5])
    tick(trainer)
    before = rows(engine, "SELECT mean, variance, num_samples, updated_at FROM route_baselines")
    reward(engine, records[0], -1.0)
    assert tick(trainer) is None
    assert rows(engine, GROUPS) == [("task", 0, "trained")]
    assert rows(engine, "SELECT mean, variance, num_samples, updated_at FROM route_baselines") == before
    assert one(engine, "SELECT count(*) FROM v1.trajectories WHERE is_reward_changed") == 1


@pytest.mark.parametrize("moment", ["claimed", "built"])
def test_a_reward_that_comes_while_its_group_is_claimed_is_not_lost(
    engine, make_trainer, monkeypatch, moment
) -> None:
    """Before the step reads rewards it is part of it; afterwards the next step has it."""
    trainer = make_trainer(**NOW)
    records = three(engine, [1.0, 0.0, None])
    where, name = {"claimed": (story, "snapshot"), "built": (story, "update_and_save")}[moment]
    real = getattr(where, name)

    def judged_meanwhile(*args: Any, **kwargs: Any) -> Any:
        reward(engine, records[2], 0.5)
        monkeypatch.setattr(where, name, real)
        return real(*args, **kwargs)

    monkeypatch.setattr(where, name, judged_meanwhile)
    tick(trainer)
    tick(trainer)
    third = "AND reward = 0.5 ORDER BY step_id DESC LIMIT 1"
    assert rows(engine, f"{USED} {third}") == (
        [(0.5, 0.5, "explicit_group", 3)] if moment == "claimed" else []
    )
    late = rows(engine, "SELECT baseline_kind, reason FROM step_samples WHERE baseline_kind = 'stored_group'")
    assert late == ([] if moment == "claimed" else [("stored_group", "no_variance")])  # 0.5 against 0.5
    assert one(engine, "SELECT num_samples FROM route_baselines") == 3


def test_an_unscored_group_that_was_left_out_teaches_with_its_late_rewards(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0, running_baseline=False)
    records = three(engine, [1.0, None, None])
    tick(trainer)
    assert rows(engine, "SELECT state, reason FROM groups") == [("skipped", "unscored")]
    for record, value in zip(records[1:], (1.0, 0.0), strict=True):
        reward(engine, record, value)
    assert tick(make_trainer(**NOW)).state is StepState.PUBLISHED
    assert one(engine, f"SELECT count(*) FROM ({USED}) AS s") == 2


def test_groups_of_a_step_that_failed_are_not_tried_again_for_a_late_reward(engine, make_trainer) -> None:
    make_trainer(**NOW)
    records = three(engine, [1.0, 0.0, None])
    _, step = resume_or_claim(make_trainer(**NOW))
    with engine.begin() as connection:
        transitions.to_failed(connection, step, "it did")
    reward(engine, records[2], 1.0)
    assert tick(make_trainer(**NOW)) is None
    assert rows(engine, GROUPS) == [("task", 0, "skipped")]


def test_what_teaches_nothing_is_not_looked_at_for_ever(engine, make_trainer) -> None:
    """A late reward on what cannot be trained any more: one more step says why, and that is all."""
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0, max_staleness=0)
    records = three(engine, [1.0, 0.0, None])
    tick(trainer)
    reward(engine, records[2], 1.0)
    assert tick(trainer).state is StepState.SKIPPED  # version 0 is too stale beside version 1
    assert tick(trainer) is None
    assert rows(engine, "SELECT reason FROM groups WHERE sequence = 1") == [("too_stale",)]


def test_two_posts_at_once_move_a_late_trajectory_once(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    records = three(engine, [1.0, 0.0, None])
    tick(trainer)
    with engine.begin() as first:
        post_reward(first, "default", RewardPost(str(records[2].call_id), value=1.0))
        with engine.connect() as other:
            other.execute(text("SET lock_timeout = '200ms'"))
            # a second source waits for the first one's commit: the group of the key is held
            with pytest.raises(Exception, match="lock timeout"):
                post_reward(
                    other, "default", RewardPost(str(records[2].call_id), value=0.0, source="program")
                )
            other.rollback()
    reward(engine, records[2], 0.5)
    assert rows(engine, GROUPS) == [("task", 0, "trained"), ("task", 1, "open")]
    assert one(engine, "SELECT count(*) FROM trajectories AS t JOIN groups AS g ON g.id = t.group_id"
                       " WHERE g.sequence = 1") == 1  # fmt: skip


def test_a_seeding_reward_is_folded_in_once_however_often_it_changes(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0)
    add_lone(engine, 10, [1.0])
    tick(trainer)
    exchange = one(engine, "SELECT id FROM exchanges")
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(exchange), value=-1.0))
    assert tick(trainer) is None
    assert rows(engine, "SELECT mean, num_samples FROM route_baselines") == [(1.0, 1)]


def test_late_choices_of_a_call_go_on_as_their_calls_next_group(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    ids = add_group(engine, 1, [1.0, 0.0, None])
    tick(trainer)
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(ids[0]), value=0.0, choice=2))
    assert rows(engine, "SELECT kind, sequence, size FROM groups ORDER BY 2") == [
        ("choices", 0, 3),
        ("choices", 1, None),
    ]
    tick(trainer)
    assert rows(engine, f"{USED} AND baseline_kind = 'stored_group'") == [(0.0, 0.5, "stored_group", 2)]


def test_a_trajectory_without_exchanges_is_not_moved_for_ever(engine, make_trainer) -> None:
    """Retention took them: a step has nothing to write down about it."""
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0)
    three(engine, [1.0, 0.0, 1.0])
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM exchanges"))
    assert tick(trainer).state is StepState.SKIPPED
    assert tick(trainer) is None


def test_a_reward_that_comes_between_two_reads_of_a_step_is_wholly_late(
    engine, make_trainer, monkeypatch
) -> None:
    """Not half read: in the baselines, but never taught. So are the rules by which judgements are rewards."""
    trainer = make_trainer(**NOW)
    records = three(engine, [1.0, 0.0, None])
    read = reads.exchange_rewards

    def slowly(connection: Any, ids: Any) -> Any:
        found = read(connection, ids)
        reward(engine, records[2], 1.0)
        with engine.begin() as other:
            set_combination(other, "default", "default", Combination.MIN)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(reads, "exchange_rewards", slowly)
        assert tick(trainer).state is StepState.PUBLISHED
    samples = "SELECT trajectory_reward, baseline, advantage FROM step_samples ORDER BY 1"
    assert rows(engine, samples) == [(0.0, 0.5, -0.5), (1.0, 0.5, 0.5), (None, None, None)]
    assert one(engine, "SELECT settings -> 'rewards' ->> 'combination' FROM training_steps") == "mean"
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, f"{USED} ORDER BY step_id DESC, 1 LIMIT 1") == [(1.0, 0.5, "stored_group", 2)]
    assert one(engine, "SELECT num_samples FROM route_baselines") == 3
