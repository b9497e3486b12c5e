"""What a step made of a row, told alike by its column, its explanation and, before the step, by the plan."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, insert, text

from ledger.explanation.facts import read_explanation
from ledger.explanation.words import MEANING
from ledger.policies import move_live
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.tables import policy_versions
from ledger.vocabulary import Reason, StepState
from tests.ledger.test_explanation import UNTRAINABLE
from tests.trainer.test_erased import erase_trajectories_of
from tests.trainer.traffic import add_group, call, rows
from trainer import transitions
from trainer.plan import read_plan, reading
from trainer.step import Trainer, resume_or_claim, tick

VERDICT = "SELECT verdict, verdict_reason FROM v1.exchanges WHERE id = '{}'"
OF_TRAJECTORY = """
    SELECT t.verdict, t.verdict_reason FROM v1.trajectories AS t JOIN exchanges AS e ON e.trajectory_id = t.id
    WHERE e.id = '{}'
"""
NOW_LATE = {"group_grace_seconds": 0.0, "group_deadline_seconds": 0.0}


def verdict_of(engine: Engine, exchange_id: UUID) -> tuple[str, str | None]:
    """The column of the exchange, after its trajectory's and the explanation's are found to say the same."""
    [found] = rows(engine, VERDICT.format(exchange_id))
    assert rows(engine, OF_TRAJECTORY.format(exchange_id)) == [found]
    with engine.connect() as connection:
        explained = read_explanation(connection, "default", str(exchange_id))
    assert explained is not None
    assert (explained["verdict"], explained["verdict_reason"]) == tuple(found)
    story = "\n".join(explained["story"])
    assert ("Verdict: trained" if found[1] is None else MEANING[found[1]]) in story
    return found[0], found[1]


def planned_reason(trainer: Trainer, exchange_id: UUID) -> str | None:
    with reading(trainer.engine) as connection:
        plan = read_plan(connection, trainer.settings)
    json.dumps(plan)
    samples = [
        sample for policy in plan["policies"] for group in policy["groups"] for sample in group["exchanges"]
    ]
    [reason] = [sample["reason"] for sample in samples if sample["exchange_id"] == str(exchange_id)]
    return reason  # type: ignore[no-any-return]


def unscored(engine: Engine) -> UUID:
    return add_group(engine, 1, [1.0, 0.0, None])[2]


def no_variance(engine: Engine) -> UUID:
    return add_group(engine, 1, [1.0, 1.0])[0]


def too_stale(engine: Engine) -> UUID:
    ids = add_group(engine, 1, [1.0, 0.0])
    with engine.begin() as connection:
        policy_id = connection.execute(text("SELECT id FROM policies")).scalar_one()
        version = {"policy_id": policy_id, "version": 9, "parent_version": 0, "state": "published"}
        connection.execute(insert(policy_versions).values(version))
        move_live(connection, policy_id, 9)
    return ids[0]


def alike(engine: Engine) -> UUID:
    return add_group(engine, 1, [1.0, 0.0])[0]


def truncated(engine: Engine) -> UUID:
    choices = [replace(choice, finish_reason="length") for choice in call(1, 2).choices]
    return add_group(engine, 1, [1.0, 0.0], choices=choices)[0]


def reshaped(engine: Engine) -> UUID:
    return add_group(engine, 1, [1.0, 0.0], top_p=0.9)[0]


def lone_on_a_route(engine: Engine) -> UUID:
    [exchange_id] = add_group(engine, 1, [1.0])
    with engine.begin() as connection:
        connection.execute(text("UPDATE trajectories SET route = 'r'"))
    return exchange_id


def lone(engine: Engine) -> UUID:
    [exchange_id] = add_group(engine, 1, [1.0])
    with engine.begin() as connection:
        connection.execute(text("UPDATE trajectories SET route = NULL"))
    return exchange_id


Begin = Callable[[Engine], UUID]
LEFT_OUT_BY_A_STEP: dict[Reason, tuple[Begin, dict[str, Any]]] = {
    Reason.UNSCORED: (unscored, {}),
    Reason.NO_VARIANCE: (no_variance, {}),
    Reason.TOO_STALE: (too_stale, {}),
    Reason.TOO_LONG: (alike, {"sample_max_tokens": 8}),
    Reason.TRUNCATED: (truncated, {"train_truncated": False}),
    Reason.RESHAPED: (reshaped, {"train_reshaped": False}),
    Reason.NO_BASELINE: (lone_on_a_route, {}),
    Reason.GROUP_INCOMPLETE: (lone, {}),
}


@pytest.mark.parametrize("reason", LEFT_OUT_BY_A_STEP, ids=str)
def test_the_plan_says_why_a_row_will_be_left_out_and_the_columns_why_it_was(
    engine, make_trainer, reason: Reason
) -> None:
    begin, settings = LEFT_OUT_BY_A_STEP[reason]
    trainer = make_trainer(**NOW_LATE, **settings)
    exchange_id = begin(engine)
    assert verdict_of(engine, exchange_id)[0] == "waiting"
    assert planned_reason(trainer, exchange_id) == reason
    assert tick(trainer) is not None
    assert verdict_of(engine, exchange_id) == ("left_out", reason)


def test_what_a_published_step_used_is_trained_even_if_it_is_erased_later(engine, make_trainer) -> None:
    trainer = make_trainer()
    ids = add_group(engine, 1, [1.0, 0.0])
    assert verdict_of(engine, ids[0]) == ("waiting", "group_open")
    assert planned_reason(trainer, ids[0]) is None
    assert tick(trainer).state is StepState.PUBLISHED
    assert verdict_of(engine, ids[0]) == ("trained", None)
    erase_trajectories_of(engine, ids[:1])
    assert verdict_of(engine, ids[0]) == ("trained", None)


def test_what_is_erased_before_a_step_is_left_out_for_that_reason(engine, make_trainer) -> None:
    make_trainer()
    ids = add_group(engine, 1, [1.0, 0.0])
    erase_trajectories_of(engine, ids[:1])
    assert verdict_of(engine, ids[0]) == ("left_out", "erased")


def test_a_row_waits_for_the_step_that_has_it(engine, make_trainer) -> None:
    trainer = make_trainer()
    ids = add_group(engine, 1, [1.0, 0.0])
    _, step = resume_or_claim(trainer)
    assert verdict_of(engine, ids[0]) == ("waiting", "claimed")
    with engine.begin() as connection:
        transitions.to_failed(connection, step, "It broke.")
    assert verdict_of(engine, ids[0]) == ("left_out", "failed")


def test_a_turn_that_comes_after_its_group_was_trained(engine, make_trainer) -> None:
    trainer = make_trainer()
    first = call(1, 2)
    with engine.begin() as connection:
        record_calls(connection, [first])
        for choice in (0, 1):
            post_reward(
                connection, "default", RewardPost(str(first.call_id), value=float(choice), choice=choice)
            )
    assert tick(trainer).state is StepState.PUBLISHED
    later = call(2, 1, attribution=first.attribution)
    with engine.begin() as connection:
        record_calls(connection, [later])
    assert rows(engine, VERDICT.format(later.call_id)) == [("left_out", "group_already_trained")]
    assert rows(engine, OF_TRAJECTORY.format(later.call_id)) == [("trained", None)]


def test_a_late_reward_makes_what_was_left_out_wait_again(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW_LATE)
    exchange_id = unscored(engine)
    assert tick(trainer).state is StepState.PUBLISHED
    assert verdict_of(engine, exchange_id) == ("left_out", "unscored")
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(exchange_id), value=1.0))
    assert verdict_of(engine, exchange_id) == ("waiting", "group_open")
    assert planned_reason(trainer, exchange_id) is None
    assert tick(trainer).state is StepState.PUBLISHED
    assert verdict_of(engine, exchange_id) == ("trained", None)


def test_a_row_waits_for_a_reward_then_for_the_final_one_then_for_its_group(engine, make_trainer) -> None:
    make_trainer()
    [exchange_id] = add_group(engine, 1, [None])
    assert verdict_of(engine, exchange_id) == ("waiting", "unscored")
    for is_final, reason in ((False, "partial"), (True, "group_open")):
        with engine.begin() as connection:
            post_reward(connection, "default", RewardPost(str(exchange_id), value=0.5, is_final=is_final))
        assert verdict_of(engine, exchange_id) == ("waiting", reason)


def test_every_reason_has_a_row_that_was_driven_to_it() -> None:
    """Here, in test_explanation, and in tests/ledger/test_verdict_columns."""
    elsewhere = {Reason.DUPLICATE_RETRY, Reason.ERASED, Reason.GROUP_ALREADY_TRAINED}
    assert {*UNTRAINABLE, *LEFT_OUT_BY_A_STEP, *elsewhere} == set(Reason)
