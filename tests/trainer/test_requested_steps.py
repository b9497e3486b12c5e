"""Steps by hand: a request is taken once, whatever the triggers say, and ends with its step."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from ledger.step_requests import Answered, ask_step, read_request
from ledger.vocabulary import RequestState, StepKind, StepState
from tests.trainer.rivals import steps_of
from tests.trainer.traffic import add_group, one, rows
from trainer import kinds, requested
from trainer.beginning import Beginning, Refusal, Take
from trainer.by_hand import NOTHING_SCORED
from trainer.step import resume_or_claim, tick

LOCKED = "LOCK TABLE plans IN SHARE MODE NOWAIT"
SLOW = "SET LOCAL statement_timeout = 20; SELECT pg_sleep(5)"
NEVER = {"step_groups": 8, "step_max_wait_seconds": 3600.0}  # by count and age


def ask(engine, kind: StepKind = StepKind.GRPO, **arguments: Any) -> UUID:
    with engine.begin() as connection:
        policy_id = connection.execute(text("SELECT id FROM policies")).scalar_one()
        return ask_step(connection, policy_id, kind, arguments)


def answered(engine, request_id: UUID) -> Answered:
    with engine.connect() as connection:
        found = read_request(connection, request_id)
    assert found is not None
    return found


@pytest.fixture
def of_kind(monkeypatch) -> Callable[[StepKind, Take], None]:
    """Another kind's function, as trainer/kinds.py registers it."""

    def register(kind: StepKind, take: Take) -> None:
        known = {**kinds.KINDS, kind: take}
        monkeypatch.setattr(requested, "KINDS", known)

    return register


def test_a_step_by_hand_needs_no_count_and_no_age(engine, make_trainer) -> None:
    trainer = make_trainer(**NEVER)
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer) is None
    asked = ask(engine)
    assert answered(engine, asked).state is RequestState.WAITING
    step = tick(trainer)
    assert step.state is StepState.PUBLISHED
    assert answered(engine, asked) == Answered(RequestState.DONE, None, step.id)
    assert tick(trainer) is None


def test_with_nothing_ready_it_is_refused_and_says_what_would_help(engine, make_trainer) -> None:
    trainer = make_trainer(**NEVER)
    nothing = ask(engine)
    assert tick(trainer) is None
    assert answered(engine, nothing).reason == NOTHING_SCORED
    add_group(engine, 1, [1.0, 0.0, None])  # one waits for a score, or the end of its grace period
    add_group(engine, 2, [1.0, None])
    asked = ask(engine)
    assert tick(trainer) is None
    found = answered(engine, asked)
    assert found.state is RequestState.REFUSED
    assert found.reason.startswith("No group is ready: of 2 with a reward, ")
    assert "2 wait for scores" in found.reason
    assert one(engine, "SELECT count(*) FROM training_steps") == 0


def test_it_can_skip_the_grace_period(engine, make_trainer) -> None:
    trainer = make_trainer(**NEVER)
    add_group(engine, 1, [1.0, 0.0, None])
    asked = ask(engine, skip_grace=True)
    assert tick(trainer).state is StepState.PUBLISHED
    assert answered(engine, asked).state is RequestState.DONE


def test_of_two_workers_at_once_one_takes_the_request(engine, make_trainer) -> None:
    trainers = [make_trainer(**NEVER) for _ in range(8)]
    add_group(engine, 1, [1.0, 0.0])
    asked = ask(engine)
    steps = steps_of(trainers)
    assert len(steps) == 1
    assert answered(engine, asked) == Answered(RequestState.TAKEN, None, steps[0].id)
    assert one(engine, "SELECT count(*) FROM training_steps") == 1


def test_a_request_waits_while_a_step_runs_and_comes_after_it(engine, make_trainer) -> None:
    trainer = make_trainer(step_groups=1)
    add_group(engine, 1, [1.0, 0.0])
    _, running = resume_or_claim(trainer)
    add_group(engine, 2, [1.0, 0.0])
    asked = ask(engine)
    assert tick(make_trainer(**NEVER)) is None
    assert answered(engine, asked).state is RequestState.WAITING
    with engine.begin() as connection:
        connection.execute(text("UPDATE training_steps SET lease_expires_at = now() - interval '1 second'"))
    assert tick(trainer).id == running.id
    assert tick(make_trainer(**NEVER)).id == answered(engine, asked).step_id != running.id


def test_another_kind_begins_the_step_that_its_function_says(engine, make_trainer, of_kind) -> None:
    seen = []

    def take(asked):
        seen.append((asked.request.arguments, asked.policy.name))
        return Beginning(StepKind.SFT, asked.settings.learning() | {"epochs": 2})

    of_kind(StepKind.SFT, take)
    trainer = make_trainer(**NEVER)
    asked = ask(engine, StepKind.SFT, epochs=2)
    _, step = resume_or_claim(trainer)
    assert seen == [({"epochs": 2}, "default")]
    assert (step.kind, step.settings["epochs"], step.version) == (StepKind.SFT, 2, 1)
    assert answered(engine, asked) == Answered(RequestState.TAKEN, None, step.id)


def test_a_kind_that_refuses_or_fails_does_not_hold_up_those_after_it(engine, make_trainer, of_kind) -> None:
    def fail(asked):
        asked.connection.execute(text("INSERT INTO projects (id, name) VALUES (gen_random_uuid(), 'left')"))
        asked.connection.execute(text("SELECT 1 / 0"))

    trainer = make_trainer(**NEVER)
    of_kind(StepKind.SFT, lambda asked: Refusal("There are no demonstrations: post some."))
    refused = ask(engine, StepKind.SFT)
    add_group(engine, 1, [1.0, 0.0])
    last = ask(engine)
    assert tick(trainer).state is StepState.PUBLISHED
    assert answered(engine, refused).reason == "There are no demonstrations: post some."
    assert answered(engine, last).state is RequestState.DONE
    of_kind(StepKind.SFT, fail)
    failed = ask(engine, StepKind.SFT)
    assert tick(trainer) is None
    assert "DataError" in answered(engine, failed).reason
    assert rows(engine, "SELECT name FROM projects") == [("default",)]


def test_what_is_in_the_way_for_now_leaves_the_request_waiting(engine, make_trainer, of_kind) -> None:
    """A deadlock, or Postgres that went away: the tick fails, the next one asks again. Too slow a question is refused."""
    trainer = make_trainer(**NEVER)
    of_kind(StepKind.SFT, lambda asked: asked.connection.execute(text(LOCKED)))
    asked = ask(engine, StepKind.SFT)
    with engine.begin() as holder:
        holder.execute(text("LOCK TABLE plans"))
        with pytest.raises(OperationalError):
            tick(trainer)
    assert answered(engine, asked).state is RequestState.WAITING
    of_kind(StepKind.SFT, lambda asked: asked.connection.execute(text(SLOW)))
    assert tick(trainer) is None
    assert answered(engine, asked).state is RequestState.REFUSED


def test_a_kind_that_nobody_makes_is_refused(engine, make_trainer, monkeypatch) -> None:
    monkeypatch.setattr(requested, "KINDS", {})
    trainer = make_trainer(**NEVER)
    asked = ask(engine, StepKind.DPO)
    assert tick(trainer) is None
    assert "makes no steps of kind dpo" in answered(engine, asked).reason
