"""What a reward is compared with where its step takes too few, or its key had another route meanwhile: nothing is lost."""

import pytest
from sqlalchemy import text

from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepState
from tests.trainer.test_ladder import NOW, RUNNING, SAMPLES, add, add_lone, in_group, spoken
from tests.trainer.traffic import call, one, rows
from trainer.plan import read_plan, reading
from trainer.step import tick


def test_lone_rewards_are_compared_with_those_that_the_step_has_no_room_for(engine, make_trainer) -> None:
    """Seven that made each other ready, four of which a step takes: none is lost, and each is folded in once."""
    trainer = make_trainer(**NOW, step_max_groups=4)
    add_lone(engine, 10, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    with reading(engine) as connection:
        plan = read_plan(connection, trainer.settings)["policies"][0]
    assert tick(trainer).state is StepState.PUBLISHED
    first = set(rows(engine, SAMPLES))
    # 3 of its own step and the 3 that wait: of the 4 ones a one sees 3, a nought all
    for reward, *others in first:
        baseline = {1.0: 3 / 6, 0.0: 4 / 6}[reward]
        assert others == [pytest.approx(baseline), "running", 6, pytest.approx(reward - baseline), None]
    planned = {each["advantage"] for group in plan["groups"] for each in group["exchanges"]}
    assert planned == {row.advantage for row in first}
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, "SELECT reason, count(*) FROM step_samples GROUP BY 1") == [(None, 7)]
    assert rows(engine, RUNNING)[0].num_samples == 7


def test_lone_rewards_are_compared_with_those_over_the_steps_tokens(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW, step_groups=5, step_max_tokens=20)
    add_lone(engine, 10, [1.0, 0.0, 1.0, 0.0, 1.0])
    assert tick(trainer).state is StepState.PUBLISHED
    assert one(engine, "SELECT count(*) FROM groups WHERE state = 'open'") > 0
    assert {row.reason for row in rows(engine, SAMPLES)} == {None}


def test_a_late_member_is_compared_with_the_newest_earlier_group_of_its_route(engine, make_trainer) -> None:
    """Not with none, because a newer group of the key was trained with another route."""
    trainer = make_trainer(**NOW)
    poets = [in_group(spoken(call(k, 1), "poet"), "task") for k in range(3)]
    add(engine, *poets, rewards=[1.0, 0.0, None])
    tick(trainer)
    clerks = [in_group(spoken(call(20 + k, 1, version=1), "clerk"), "task") for k in range(2)]
    add(engine, *clerks, rewards=[1.0, 0.5])
    tick(trainer)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM route_baselines"))
        post_reward(connection, "default", RewardPost(str(poets[2].call_id), value=1.0))
    assert tick(trainer).state is StepState.PUBLISHED
    late = rows(engine, f"{SAMPLES} ORDER BY step_id DESC LIMIT 1")
    assert late == [(1.0, 0.5, "stored_group", 2, 0.5, None)]
