from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.vocabulary import ExchangeStatus, Reason
from tests.ledger.calls import NOW, a_call, a_choice, a_policy, an_attribution, conversation, n_call, rows

GROUPS = "SELECT kind, key, sequence, size FROM groups ORDER BY kind, key, sequence"
MEMBERS = "SELECT g.key, count(t.id) FROM groups g LEFT JOIN trajectories t ON t.group_id = g.id GROUP BY g.id, g.key ORDER BY 1"


def test_an_explicit_key_groups_trajectories(connection: Connection) -> None:
    a_policy(connection)
    sized = a_call(attribution=an_attribution(group_key="task", group_size=4))
    record_calls(connection, [sized, n_call(2, group="task"), a_call(group="task")])
    assert rows(connection, GROUPS) == [("explicit", "task", 0, 4)]
    assert rows(connection, MEMBERS) == [("task", 4)]


def test_the_choices_of_a_call_are_a_group_of_their_number(connection: Connection) -> None:
    a_policy(connection)
    call = n_call(3)
    record_calls(connection, [call])
    assert rows(connection, GROUPS) == [("choices", call.call_id.hex, 0, 3)]


def same(**changes: Any) -> CallRecord:
    return replace(a_call(), **changes)


@pytest.mark.parametrize(
    "other",
    [
        same(prompt_ids=[1, 5, 10]),
        same(request={"tools": [{"name": "t"}]}),
        same(started_at=NOW + timedelta(hours=1)),
        same(version=4, expected_model=None),
    ],
    ids=["prompt", "tools", "window", "version"],
)
def test_prompt_groups_hold_the_same_prompt_tools_window_and_version(
    connection: Connection, other: CallRecord
) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(), a_call(messages=[])])
    record_calls(connection, [a_call(), other])
    assert sorted(number for _, number in rows(connection, MEMBERS)) == [1, 3]


@pytest.mark.parametrize(
    "call",
    [
        same(attribution=an_attribution(is_opted_out=True, group_key="g")),
        same(attribution=an_attribution(turn_type="side", group_key="g")),
        same(status=ExchangeStatus.FAILED, choices=[]),
        same(temperature=0.0),
        same(untrainable_reason=Reason.EXTERNAL_MODEL),
    ],
    ids=["opted_out", "side", "failed", "greedy", "external"],
)
def test_what_cannot_be_trained_gets_no_group(connection: Connection, call: CallRecord) -> None:
    a_policy(connection)
    record_calls(connection, [call])
    assert rows(connection, "SELECT group_id FROM trajectories") == [(None,)]
    assert rows(connection, GROUPS) == []


def test_later_turns_never_change_the_group(connection: Connection) -> None:
    a_policy(connection)
    turns = conversation(3)
    record_calls(connection, turns[:1])
    record_calls(
        connection,
        [replace(turn, attribution=replace(turn.attribution, group_key="g")) for turn in turns[1:]],
    )
    assert [kind for kind, *_ in rows(connection, GROUPS)] == ["prompt"]


def test_a_failed_first_call_does_not_cost_a_trajectory_its_group(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(external_id="x", group="g", status=ExchangeStatus.FAILED, choices=[])])
    record_calls(connection, [a_call(external_id="x", group="g")])
    assert rows(connection, MEMBERS) == [("g", 1)]


@pytest.mark.parametrize("group", ["g", None])
def test_a_group_that_was_claimed_is_continued_by_the_next(connection: Connection, group: str | None) -> None:
    """I6: a late member never joins a group that is being or was trained."""
    a_policy(connection)
    for state in ("claimed", "trained", "open"):
        record_calls(connection, [a_call(group=group), a_call(group=group)])
        connection.execute(text("UPDATE groups SET state = :state WHERE state = 'open'"), {"state": state})
    assert [sequence for _, _, sequence, _ in rows(connection, GROUPS)] == [0, 1, 2]
    assert [number for _, number in rows(connection, MEMBERS)] == [2, 2, 2]


def test_a_claim_and_a_recorder_never_see_half_a_membership(engine: Engine) -> None:
    """I6: a claim that asks for the row waits for the recorder (here: is refused at once)."""
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [a_call(group="g")])
    claim = text("SELECT id FROM groups FOR UPDATE SKIP LOCKED")
    with engine.connect() as recorder, engine.connect() as claimer:
        record_calls(recorder, [a_call(group="g")])
        assert claimer.execute(claim).all() == []
        claimer.rollback()
        recorder.commit()
        assert len(claimer.execute(claim).all()) == 1


def test_an_empty_answer_has_no_group_but_its_siblings_do(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(num_choices=3, choices=[a_choice(0), a_choice(1), a_choice(2, ids=[])])])
    assert [number for _, number in rows(connection, MEMBERS)] == [2]


def test_a_size_declared_later_counts(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(group="g")])
    record_calls(connection, [a_call(attribution=an_attribution(group_key="g", group_size=5))])
    record_calls(connection, [a_call(attribution=an_attribution(group_key="g", group_size=9))])
    assert rows(connection, GROUPS) == [("explicit", "g", 0, 5)]
