"""The running baseline in Postgres: each reward moves it exactly once, whoever fails when, as a plain model has it."""

import random
from collections import defaultdict
from typing import Any

import pytest
from sqlalchemy import Engine, text

from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepState
from tests.trainer.test_claim import expire
from tests.trainer.test_ladder import NOW, add_lone, lone
from tests.trainer.test_ladder import add as add_calls
from tests.trainer.traffic import add_group, one, rows
from trainer import baselines, build, transitions
from trainer import step as story
from trainer.errors import LeaseLostError, SurroundingsError
from trainer.grpo.advantages import Running
from trainer.step import resume_or_claim, tick

RUNNING = "SELECT route, mean, variance, num_samples FROM route_baselines ORDER BY route"
LIVE = "SELECT live_version FROM policies"
WINDOW = 6


def plain_model(engine: Engine) -> dict[str, tuple[float, int]]:
    """Mean and number of samples by route, by a loop over what the steps read: no fold, no SQL arithmetic."""
    found: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    seen = rows(engine, """
        SELECT DISTINCT ON (s.step_id, s.trajectory_id) t.route, s.trajectory_reward FROM step_samples AS s
        JOIN trajectories AS t ON t.id = s.trajectory_id
        WHERE s.trajectory_reward IS NOT NULL AND s.reason IS DISTINCT FROM 'greedy'
        ORDER BY s.step_id, s.trajectory_id
    """)  # fmt: skip
    for route, reward in seen:
        mean, number = found[route]
        share = 1 / min(number + 1, WINDOW)
        found[route] = ((1 - share) * mean + share * reward, number + 1)
    return found


def check(engine: Engine) -> None:
    expected = plain_model(engine)
    found = {row.route: (row.mean, row.num_samples) for row in rows(engine, RUNNING)}
    assert found.keys() == expected.keys()
    for route, (mean, number) in expected.items():
        assert found[route] == (pytest.approx(mean, abs=1e-12), number)


def test_a_resumed_step_moves_it_once(engine, make_trainer, monkeypatch) -> None:
    """The worker dies behind `built`: the next one goes on with the samples, and does not fold them in again."""
    trainer = make_trainer(**NOW, step_groups=5)
    add_lone(engine, 10, [1.0, 0.0, 0.0, 1.0, 0.0])

    def dies(*_: Any) -> None:
        raise SurroundingsError("the disk is full")

    monkeypatch.setattr(story, "update_and_save", dies)
    tick(trainer)
    monkeypatch.undo()
    assert one(engine, "SELECT num_samples FROM route_baselines") == 5
    expire(engine)
    assert tick(trainer).state is StepState.PUBLISHED
    assert one(engine, "SELECT num_samples FROM route_baselines") == 5


def test_an_attempt_that_dies_before_its_commit_moves_nothing(engine, make_trainer, monkeypatch) -> None:
    trainer = make_trainer(**NOW, step_groups=5)
    add_lone(engine, 10, [1.0, 0.0, 0.0, 1.0, 0.0])

    def dies(*_: Any, **__: Any) -> None:
        raise SurroundingsError("the network is gone")

    monkeypatch.setattr(transitions, "move", dies)
    tick(trainer)
    monkeypatch.undo()
    assert rows(engine, RUNNING) == []
    expire(engine)
    tick(trainer)
    assert one(engine, "SELECT num_samples FROM route_baselines") == 5


def test_of_two_workers_with_one_step_the_one_that_was_fenced_out_moves_nothing(engine, make_trainer) -> None:
    """Both have built it; the first one's lease had run out. Its transaction is refused as a whole."""
    sleeper, other = make_trainer(**NOW, step_groups=5), make_trainer(**NOW, step_groups=5)
    add_lone(engine, 10, [1.0, 0.0, 0.0, 1.0, 0.0])
    _, old = resume_or_claim(sleeper)
    with engine.connect() as connection:
        batch = build.read_batch(connection, old, sleeper.settings)
    expire(engine)
    assert tick(other).state is StepState.PUBLISHED
    before = rows(engine, RUNNING)

    def builds_too_late() -> None:
        with engine.begin() as connection:
            baselines.move_running(connection, old, batch.seen, batch.running, 256)
            transitions.move(connection, old, StepState.BUILT, [StepState.CLAIMED])

    with pytest.raises(LeaseLostError):
        builds_too_late()
    assert rows(engine, RUNNING) == before


def test_a_row_that_moved_since_it_was_read_is_not_overwritten(engine, make_trainer) -> None:
    """Whatever let two writers in: the second one has compared with what is no more."""
    trainer = make_trainer(**NOW)
    add_lone(engine, 10, [1.0])
    _, step = resume_or_claim(make_trainer(group_deadline_seconds=0.0))
    with engine.connect() as connection:
        batch = build.read_batch(connection, step, trainer.settings)
    route = batch.seen[0].route
    for before in ({}, {route: Running(0.5, 0.25, 4)}):
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM route_baselines"))
            connection.execute(
                text(
                    "INSERT INTO route_baselines (policy_id, route, mean, variance, num_samples, step_id)"
                    " VALUES (:policy_id, :route, 0.75, 0.1, 5, :step_id)"
                ),
                {"policy_id": step.policy_id, "route": route, "step_id": step.id},
            )
        with pytest.raises(LeaseLostError), engine.begin() as connection:
            baselines.move_running(connection, step, batch.seen, before, 256)
        assert rows(engine, RUNNING) == [(route, 0.75, 0.1, 5)]


def test_a_step_that_fails_keeps_what_it_saw_and_one_that_never_read_rewards_moves_nothing(
    engine, make_trainer, monkeypatch
) -> None:
    trainer = make_trainer(**NOW, step_attempts=1)
    add_group(engine, 1, [1.0, 0.0])

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("not finite")

    monkeypatch.setattr(story, "learn", broken)
    assert tick(trainer).state is StepState.BUILT  # as it knows itself; the row says more
    assert one(engine, "SELECT state FROM training_steps") == "failed"
    monkeypatch.undo()
    assert one(engine, "SELECT num_samples FROM route_baselines") == 2
    add_group(engine, 2, [1.0, 0.0])
    monkeypatch.setattr(story, "snapshot", broken)
    tick(trainer)
    assert one(engine, "SELECT num_samples FROM route_baselines") == 2


def test_a_group_over_the_token_budget_is_folded_in_by_the_step_that_takes_it(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW, step_max_tokens=20)
    for seed in range(3):
        add_group(engine, seed, [1.0, 0.0, 1.0])
    for number in (3, 6, 9):
        tick(trainer)
        assert one(engine, "SELECT num_samples FROM route_baselines") == number


@pytest.mark.parametrize("seed", range(3))
def test_any_traffic_with_any_failures_ends_where_a_plain_model_does(
    engine, make_trainer, monkeypatch, seed
) -> None:
    """Lone rewards, groups, late and changed ones, three routes; attempts that die before and behind `built`."""
    dice = random.Random(seed)
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0, baseline_window=WINDOW, step_attempts=9)
    posted: list[Any] = []

    def dies(*_: Any, **__: Any) -> None:
        raise SurroundingsError("gone")

    for turn in range(14):
        what = dice.choice(["lone", "lone", "group", "late", "changed"])
        value = dice.choice([-1.0, 0.0, 0.3, 1.0])
        if what == "lone":
            system = [{"role": "system", "content": dice.choice("abc")}, {"role": "user", "content": "q"}]
            records = lone(100 * turn, [value], messages=system, version=one(engine, LIVE))
            posted += records
            add_calls(engine, *records, rewards=[dice.choice([value, None])])
        elif what == "group":
            add_group(engine, turn, [value, 0.5, None], version=one(engine, LIVE))
        elif posted:
            with engine.begin() as connection:
                target = str(dice.choice(posted).call_id)
                post_reward(connection, "default", RewardPost(target, value=value))
        where = dice.choice([(transitions, "move"), (story, "update_and_save"), None])
        if where:
            monkeypatch.setattr(*where, dies)
            tick(trainer)
            monkeypatch.undo()
        if one(engine, "SELECT count(*) FROM training_steps WHERE state IN ('claimed', 'built')"):
            expire(engine)
        tick(trainer)
        check(engine)
    assert one(engine, "SELECT count(*) FROM route_baselines") > 1


def test_a_reward_that_a_step_has_read_is_never_folded_in_by_another(engine, make_trainer) -> None:
    """Whoever opens its group again."""
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0)
    add_lone(engine, 10, [1.0])
    tick(trainer)
    with engine.begin() as connection:
        connection.execute(text("UPDATE groups SET state = 'open', step_id = NULL, reason = NULL"))
    assert tick(trainer).state is StepState.SKIPPED
    assert one(engine, "SELECT count(DISTINCT step_id) FROM step_samples") == 2
    assert one(engine, "SELECT num_samples FROM route_baselines") == 1
