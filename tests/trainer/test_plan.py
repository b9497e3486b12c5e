"""Dry runs: what the next step would do, without a model, a lock or a write."""

import json
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import InternalError

from ledger.vocabulary import StepState
from tests.trainer.traffic import add_group, one, rows
from trainer.plan import read_plan, reading
from trainer.step import tick

SAMPLES = """
    SELECT exchange_id, trajectory_id, reward, baseline, baseline_kind, num_baseline_samples, advantage, staleness,
        num_completion_tokens, is_used, reason
    FROM step_samples ORDER BY exchange_id
"""


def plan_of(trainer) -> Any:
    with reading(trainer.engine) as connection:
        return read_plan(connection, trainer.settings)


def planned_samples(plan) -> list[dict[str, Any]]:
    found = [sample for group in plan["policies"][0]["groups"] for sample in group["exchanges"]]
    return sorted(found, key=lambda sample: sample["exchange_id"])


def test_a_step_that_follows_has_exactly_the_samples_of_the_plan(engine, make_trainer) -> None:
    trainer = make_trainer(group_grace_seconds=0)
    add_group(engine, 1, [1.0, 0.0, None])
    add_group(engine, 2, [1.0, 1.0])
    add_group(engine, 3, [0.5, 0.25], temperature=0)
    planned = planned_samples(plan_of(trainer))
    assert tick(trainer).state is StepState.PUBLISHED
    stepped = [dict(row._mapping) for row in rows(engine, SAMPLES)]
    assert [{name: sample[name] for name in stepped[0]} for sample in planned] == [
        sample | {name: str(sample[name]) for name in ("exchange_id", "trajectory_id")} for sample in stepped
    ]
    assert len(planned) == 5
    assert {sample["reason"] for sample in planned} == {None, "unscored", "no_variance"}


def test_two_plans_of_the_same_ledger_are_equal_and_change_nothing(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    add_group(engine, 2, [1.0, None])
    before = rows(engine, "SELECT * FROM groups ORDER BY id")
    first, second = plan_of(trainer), plan_of(trainer)
    assert json.dumps(first) == json.dumps(second)
    assert rows(engine, "SELECT * FROM groups ORDER BY id") == before
    assert one(engine, "SELECT count(*) FROM training_steps") == 0


def test_a_plan_cannot_write(engine) -> None:
    with reading(engine) as connection, pytest.raises(InternalError, match="read-only"):
        connection.execute(text("UPDATE policies SET live_version = 9"))


def test_a_plan_waits_for_nobody_and_nobody_for_it(engine, make_trainer) -> None:
    """While a step holds its groups locked, and the other way round."""
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    with engine.begin() as holder:
        holder.execute(text("SET LOCAL lock_timeout = '1s'"))
        holder.execute(text("SELECT 1 FROM groups FOR UPDATE"))
        holder.execute(text("SELECT 1 FROM policies FOR UPDATE"))
        with reading(engine) as connection:
            assert len(read_plan(connection, trainer.settings)["policies"][0]["groups"]) == 1
            holder.execute(text("UPDATE groups SET reason = NULL"))
