"""Half a comparison: the other side is not there yet, was erased, or was removed."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from ledger.erasure.subject import Subject
from ledger.recording import record_calls
from ledger.rewards.comparisons import retract_comparison
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ErasureSubject
from tests.ledger.calls import a_call, a_policy, rows
from tests.ledger.judged import post
from tests.ledger.test_comparisons import compare, recorded
from tests.ledger.test_erasure import erase

COUNTED = "SELECT t.external_id, r.value FROM v1.rewards AS r JOIN trajectories AS t ON t.id = r.trajectory_id WHERE r.is_counted ORDER BY r.id"
ALL = "SELECT source, value, not_counted_reason FROM v1.rewards ORDER BY id"


@pytest.mark.parametrize("pair", ["ab", "ba"])
def test_a_side_counts_once_the_other_is_known(connection: Connection, pair: str) -> None:
    """Better than nobody is no reward; and it outranks no judge."""
    recorded(connection, "a")
    post(connection, "a", 0.25, source="judge")
    result = compare(connection, *pair)
    sides = (result.preferred, result.other)
    assert [side and (side.not_counted_reason, bool(side.note)) for side in sides] == [("early", True)] * 2
    assert rows(connection, COUNTED) == [("a", 0.25)]
    record_calls(connection, [a_call(external_id="b", prompt_ids=[7])])
    assert rows(connection, COUNTED) == list(zip(pair, (1.0, 0.0), strict=True))


def test_what_is_compared_with_itself_by_another_name_never_counts(connection: Connection) -> None:
    a_policy(connection)
    call = a_call(external_id="a")
    compare(connection, "a", call.attribution.trajectory_id)
    record_calls(connection, [call])
    assert rows(connection, COUNTED) == []
    assert {reason for *_, reason in rows(connection, ALL)} == {"superseded", "early"}


def erased(connection: Connection, name: str) -> UUID:
    [(id_,)] = rows(connection, f"SELECT id FROM trajectories WHERE external_id = '{name}'")
    erase(connection, Subject(ErasureSubject.TRAJECTORY, name))
    return UUID(str(id_))


@pytest.mark.parametrize("more", [{}, {"idempotency_id": "x"}], ids=["without id", "with id"])
def test_the_same_again_is_unchanged_after_a_side_was_erased(
    connection: Connection, more: dict[str, Any]
) -> None:
    recorded(connection, "a", "b")
    first = compare(connection, "a", "b", source="alice", **more)
    a = erased(connection, "a")
    for _ in range(2):
        again = compare(connection, a, "b", source="alice", **more)
        assert (again.status, again.comparison_id) == ("unchanged", first.comparison_id)
    assert len(rows(connection, ALL)) == 2
    if not more:
        turned = compare(connection, "b", a, source="alice")
        assert (turned.status, turned.comparison_id) == ("recorded", first.comparison_id)
        assert [reason for *_, reason in rows(connection, ALL)] == ["superseded", "superseded", None, None]


def test_a_comparison_that_began_with_an_erased_side_is_one_for_each_source(connection: Connection) -> None:
    recorded(connection, "a", "b")
    a = erased(connection, "a")
    ids = {compare(connection, a, "b", source=source).comparison_id for source in ("alice", "bob") * 2}
    assert len(ids) == 2
    assert sorted(rows(connection, ALL)) == [
        ("alice", 0.0, None), ("bob", 0.0, None), ("erased", 1.0, None), ("erased", 1.0, None),
    ]  # fmt: skip


def test_a_comparison_with_an_erased_side_is_taken_back_whole(connection: Connection) -> None:
    recorded(connection, "a", "b")
    made = compare(connection, "a", "b", source="alice")
    erased(connection, "a")
    taken = retract_comparison(connection, "default", made.comparison_id, None)
    assert taken
    assert [
        half and half.taken_back and half.taken_back.value for half in (taken.preferred, taken.other)
    ] == [
        1.0,
        0.0,
    ]
    assert rows(connection, "SELECT is_retracted FROM v1.comparisons") == [(True,)]
    assert {reason for *_, reason in rows(connection, ALL)} == {"superseded", "retraction"}


def test_a_judgement_whose_source_was_erased_is_taken_back_by_its_number(connection: Connection) -> None:
    recorded(connection, "a")
    post(connection, "a", 0.5, source="alice")
    a = erased(connection, "a")
    taken = post_reward(connection, "default", RewardPost(str(a), source="erased-1", is_retraction=True))
    assert taken.taken_back
    assert {reason for *_, reason in rows(connection, ALL)} == {"superseded", "retraction"}


def test_a_source_that_only_looks_like_an_erased_one_is_erased(connection: Connection) -> None:
    recorded(connection, "a")
    post(connection, "a", 0.5, source="erased-alice")
    a = erased(connection, "a")
    post_reward(connection, "default", RewardPost(str(a), value=0.5, source="erased-1 alice"))
    assert [source for source, *_ in rows(connection, ALL)] == ["erased-1", "erased"]


def test_what_retention_left_of_a_comparison_counts_and_is_taken_back(connection: Connection) -> None:
    """As long as nobody takes it back: it was better than something that was there."""
    recorded(connection, "a", "b")
    made = compare(connection, "a", "b", source="alice")
    [(a,)] = rows(connection, "SELECT id FROM trajectories WHERE external_id = 'a'")
    for table, column in (
        ("exchanges", "trajectory_id"),
        ("reward_events", "trajectory_id"),
        ("trajectories", "id"),
    ):
        connection.execute(text(f"DELETE FROM {table} WHERE {column} = :id"), {"id": a})
    assert rows(connection, COUNTED) == [("b", 0.0)]
    taken = retract_comparison(connection, "default", made.comparison_id, None)
    assert taken
    assert (taken.status, taken.preferred) == ("recorded", None)
    assert taken.other
    assert taken.other.taken_back
    assert rows(connection, COUNTED) == []
    assert rows(connection, "SELECT source, is_retracted FROM v1.comparisons") == [("alice", True)]
    again = retract_comparison(connection, "default", made.comparison_id, None)
    assert again
    assert again.status == "unchanged"
