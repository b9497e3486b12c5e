"""When a step begins, on a real ledger: floor, interval, hours and pause hold it back, alone and together."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from ledger.pauses import find_learners, pause, resume
from ledger.policies import ensure_policy
from ledger.vocabulary import RequestState, StepState
from tests.trainer.test_requested_steps import NEVER, answered, ask
from tests.trainer.traffic import add_group, one
from trainer.plan import read_plan, reading
from trainer.settings import TrainerSettings
from trainer.step import resume_or_claim, tick


def planned(trainer) -> dict[str, Any]:
    with reading(trainer.engine) as connection:
        return read_plan(connection, trainer.settings)["policies"][0]


def hours_around(delta: timedelta) -> str:
    """Two hours (UTC), around now plus this."""
    moment = datetime.now(UTC) + delta
    return f"{moment - timedelta(hours=1):%H:%M}-{moment + timedelta(hours=1):%H:%M}"


def paused(engine, reason: str | None = None) -> list[UUID]:
    with engine.begin() as connection:
        ids = [learner.id for learner in find_learners(connection)]
        pause(connection, ids, reason)
    return ids


def num_tokens(engine) -> int:
    return one(engine, "SELECT sum(num_completion_tokens) FROM exchanges WHERE untrainable_reason IS NULL")


def test_below_the_floor_no_step_begins_until_the_tokens_are_there(engine, make_trainer) -> None:
    add = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    few = num_tokens(engine)
    trainer = make_trainer(step_min_tokens=few + 1)
    assert tick(trainer) is None
    plan = planned(trainer)
    assert (plan["is_due"], plan["waits_for"], plan["num_tokens"]) == (False, ["tokens"], few)
    assert plan["num_tokens_needed"] == 1
    add_group(engine, 2, [1.0, 0.0])
    assert planned(trainer)["is_due"]
    assert tick(trainer).state is StepState.PUBLISHED
    assert add.settings.step_min_tokens == 0


def test_tokens_of_calls_that_cannot_be_trained_or_were_not_judged_are_below_the_floor(
    engine, make_trainer
) -> None:
    trainer = make_trainer(group_grace_seconds=0)
    add_group(engine, 1, [1.0, 0.0, None])
    [spoilt, *_] = add_group(engine, 2, [1.0, 0.0])
    with engine.begin() as connection:
        change = "UPDATE exchanges SET is_trainable = false, untrainable_reason = 'missing_token_ids' WHERE id = :id"
        connection.execute(text(change), {"id": spoilt})
    judged = one(
        engine,
        "SELECT sum(e.num_completion_tokens) FROM exchanges e JOIN trajectories t ON t.id = e.trajectory_id"
        " WHERE e.untrainable_reason IS NULL AND EXISTS (SELECT FROM reward_events r WHERE r.trajectory_id = t.id)",
    )
    assert 0 < judged < num_tokens(engine)
    assert planned(trainer)["num_tokens"] == judged


def test_age_passes_the_floor(engine, make_trainer) -> None:
    trainer = make_trainer(step_groups=8, step_min_tokens=5000, step_max_wait_seconds=0.001)
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer).state is StepState.PUBLISHED


def test_a_step_that_is_full_passes_the_floor(engine, make_trainer) -> None:
    trainer = make_trainer(step_max_groups=1, step_min_tokens=5000)
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer).state is StepState.PUBLISHED


def test_groups_that_the_step_has_no_room_for_count_all_the_same(engine, make_trainer) -> None:
    """Else a count that is larger than what a step reads is never reached, however many are ready."""
    trainer = make_trainer(step_groups=3, step_max_tokens=1, step_min_tokens=0)
    for seed in (1, 2, 3):
        add_group(engine, seed, [1.0, 0.0])
    plan = planned(trainer)
    assert (plan["is_due"], plan["num_groups_needed"], len(plan["groups"])) == (True, 0, 1)
    assert tick(trainer).state is StepState.PUBLISHED
    assert one(engine, "SELECT count(*) FROM groups WHERE state = 'open'") == 2


def test_versions_keep_their_distance(engine, make_trainer) -> None:
    trainer = make_trainer(min_seconds_between_versions=3600)
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer).version == 1  # none before it
    add_group(engine, 2, [1.0, 0.0])
    assert tick(trainer) is None
    plan = planned(trainer)
    assert (plan["waits_for"], plan["newest_version"]) == (["interval"], 1)
    published_at = datetime.fromisoformat(plan["published_at"])
    assert datetime.fromisoformat(plan["due_at"]) == published_at + timedelta(hours=1)
    with engine.begin() as connection:
        connection.execute(text("UPDATE policy_versions SET published_at = published_at - interval '1 hour'"))
    assert tick(trainer).version == 2


def test_a_step_that_made_no_version_needs_no_distance(engine, make_trainer) -> None:
    trainer = make_trainer(min_seconds_between_versions=3600)
    add_group(engine, 1, [1.0, 1.0])
    assert tick(trainer).state is StepState.SKIPPED
    add_group(engine, 2, [1.0, 0.0])
    assert tick(trainer).state is StepState.PUBLISHED


def test_outside_of_hours_no_step_begins_except_by_hand(engine, make_trainer) -> None:
    closed = make_trainer(train_hours=hours_around(timedelta(hours=12)))
    add_group(engine, 1, [1.0, 0.0])
    assert tick(closed) is None
    plan = planned(closed)
    assert plan["waits_for"] == ["hours"]
    ahead = datetime.fromisoformat(plan["due_at"]) - datetime.now(UTC)
    assert timedelta(hours=10) < ahead < timedelta(hours=12)
    ask(engine)
    assert tick(closed).version == 1
    add_group(engine, 2, [1.0, 0.0])
    assert tick(closed) is None
    assert tick(make_trainer(train_hours=hours_around(timedelta()))).version == 2


def test_by_hand_needs_neither_floor_nor_distance(engine, make_trainer) -> None:
    trainer = make_trainer(**NEVER, step_min_tokens=5000, min_seconds_between_versions=3600)
    for version in (1, 2):
        add_group(engine, version, [1.0, 0.0])
        ask(engine)
        assert tick(trainer).version == version


def test_a_paused_policy_begins_no_step_and_ends_the_one_that_runs(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    _, running = resume_or_claim(trainer)
    ids = paused(engine, "The rewards look odd.")
    with engine.begin() as connection:
        connection.execute(text("UPDATE training_steps SET lease_expires_at = now() - interval '1 second'"))
    ended = tick(trainer)
    assert (ended.id, ended.state) == (running.id, StepState.PUBLISHED)
    add_group(engine, 2, [1.0, 0.0])
    assert tick(trainer) is None
    plan = planned(trainer)
    assert (plan["waits_for"], plan["due_at"]) == (["resumption"], None)
    assert plan["paused_reason"] == "The rewards look odd."
    with engine.begin() as connection:
        resume(connection, ids)
    assert tick(trainer).version == 2


def test_a_request_waits_for_resumption_unless_it_says_otherwise(engine, make_trainer) -> None:
    trainer = make_trainer(**NEVER)
    ids = paused(engine)
    add_group(engine, 1, [1.0, 0.0])
    waiting, urgent = ask(engine), ask(engine, even_if_paused=True)
    assert planned(trainer)["num_requests"] == 1
    step = tick(trainer)
    assert answered(engine, urgent).step_id == step.id
    assert tick(trainer) is None
    assert answered(engine, waiting).state is RequestState.WAITING
    add_group(engine, 2, [1.0, 0.0])
    with engine.begin() as connection:
        resume(connection, ids)
    assert tick(trainer).id == answered(engine, waiting).step_id


def test_another_policy_is_not_paused_with_it(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    with engine.begin() as connection:
        other = ensure_policy(
            connection, name="default", base_model=trainer.settings.base_model, project="acme"
        )
        pause(connection, [other.id], None)
    assert tick(trainer).state is StepState.PUBLISHED


def test_a_step_looks_at_no_more_than_it_can_have_room_for(engine, make_trainer) -> None:
    """Four times its ceiling, so that a ledger of long groups is not read in whole."""
    trainer = make_trainer(step_max_tokens=3)
    for seed in range(12):
        add_group(engine, seed, [1.0, 0.0])
    _, step = resume_or_claim(trainer)
    claimed = one(engine, f"SELECT count(*) FROM groups WHERE step_id = '{step.id}'")
    assert 1 <= claimed <= 3


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"train_hours": "22-6"}, "SLIPSTREAM_TRAIN_HOURS"),
        ({"train_time_zone": "Mars"}, "SLIPSTREAM_TRAIN_TIME_ZONE"),
        ({"step_min_tokens": -1}, "SLIPSTREAM_STEP_MIN_TOKENS"),
        ({"min_seconds_between_versions": -1}, "SLIPSTREAM_MIN_SECONDS_BETWEEN_VERSIONS"),
    ],
)
def test_a_wrong_setting_stops_the_worker_and_is_named(settings_of, changes, name) -> None:
    with pytest.raises(ValueError, match=r"no window|no time zone|greater than or equal"):
        settings_of(**changes)
    assert name in [f.validation_alias for f in TrainerSettings.model_fields.values()]
