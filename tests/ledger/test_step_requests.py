"""Steps that somebody asked for: in the order of asking, each taken once, and ended with its step."""

from uuid import UUID

import pytest
from sqlalchemy import Connection, insert

from ledger.identifiers import new_id
from ledger.policies import Policy, ensure_policy
from ledger.step_requests import (
    ask_step,
    end_request_of,
    next_request,
    read_request,
    refuse_request,
    take_request,
)
from ledger.tables import training_steps
from ledger.vocabulary import RequestState, StepKind


@pytest.fixture
def policy(connection: Connection) -> Policy:
    return ensure_policy(connection, name="default", base_model="base")


def _step(connection: Connection, policy: Policy) -> UUID:
    step_id = new_id()
    values = {"id": step_id, "policy_id": policy.id, "version": 1, "parent_version": 0, "state": "claimed"}
    connection.execute(insert(training_steps).values(**values, seed=1, settings={}))
    return step_id


def test_the_oldest_is_next_and_is_taken_once(connection: Connection, policy: Policy) -> None:
    first = ask_step(connection, policy.id, StepKind.SFT, {"epochs": 1})
    second = ask_step(connection, policy.id, StepKind.GRPO, {})
    found = next_request(connection, policy.id)
    assert found
    assert (found.id, found.kind, found.arguments) == (first, StepKind.SFT, {"epochs": 1})
    take_request(connection, first, _step(connection, policy))
    assert (left := next_request(connection, policy.id))
    assert left.id == second


def test_a_request_ends_with_its_step(connection: Connection, policy: Policy) -> None:
    asked, step_id = ask_step(connection, policy.id, StepKind.GRPO, {}), _step(connection, policy)
    take_request(connection, asked, step_id)
    end_request_of(connection, step_id, "Nothing to learn.")
    answered = read_request(connection, asked)
    assert answered
    assert (answered.state, answered.reason, answered.step_id) == (
        RequestState.DONE,
        "Nothing to learn.",
        step_id,
    )


def test_a_refused_request_is_not_taken(connection: Connection, policy: Policy) -> None:
    asked = ask_step(connection, policy.id, StepKind.DPO, {})
    refuse_request(connection, asked, "There are no comparisons: post some.")
    assert next_request(connection, policy.id) is None
    assert (answered := read_request(connection, asked))
    assert answered.reason == "There are no comparisons: post some."
    assert read_request(connection, new_id()) is None
