"""Which of two was better: two judgements, all or none, and one group."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from ledger.errors import ComparisonRefusedError, RewardConflictError
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.comparisons import Comparison, ComparisonResult, post_comparison, retract_comparison
from ledger.rewards.pairs import pair_up
from ledger.rewards.posts import RewardPost
from ledger.rewards.reading import trajectory_rewards
from tests.ledger.calls import a_call, a_policy, n_call, rows
from tests.ledger.judged import post
from tests.ledger.learned import used_by_a_step

EVENTS = "SELECT value, not_counted_reason FROM v1.rewards ORDER BY id"


def compare(connection: Connection, preferred: Any, other: Any, **more: Any) -> ComparisonResult:
    sides = (RewardPost(str(preferred), **more), RewardPost(str(other), **more))
    return post_comparison(connection, "default", Comparison(*sides))


def recorded(connection: Connection, *names: str, **changes: Any) -> list[CallRecord]:
    a_policy(connection)
    calls = [a_call(external_id=name, prompt_ids=[1, number], **changes) for number, name in enumerate(names)]
    record_calls(connection, calls)
    return calls


def groups(connection: Connection) -> dict[str, list[str]]:
    found = rows(
        connection,
        "SELECT g.kind, string_agg(t.external_id, '' ORDER BY t.external_id) FROM groups AS g "
        "JOIN trajectories AS t ON t.group_id = g.id GROUP BY g.id, g.kind ORDER BY 1, 2",
    )
    by_kind: dict[str, list[str]] = {}
    for kind, names in found:
        by_kind.setdefault(kind, []).append(names)
    return by_kind


def test_both_get_a_judgement_and_one_group(connection: Connection) -> None:
    """The better one is worth the largest reward, the other the smallest."""
    a, b = recorded(connection, "a", "b")
    result = compare(connection, "a", b.call_id)
    assert (result.status, result.preferred.not_counted_reason) == ("recorded", None)
    assert result.other.exchange_id == b.call_id
    rewards = trajectory_rewards(connection, [a.attribution.trajectory_id, b.attribution.trajectory_id])
    assert rewards == {a.attribution.trajectory_id: 1.0, b.attribution.trajectory_id: -1.0}
    assert groups(connection) == {"comparison": ["ab"]}
    [seen] = rows(
        connection, "SELECT id, preferred_trajectory_id, group_id, is_retracted FROM v1.comparisons"
    )
    assert seen == (result.comparison_id, a.attribution.trajectory_id, result.group_id, False)


def test_the_same_again_is_unchanged_and_the_other_way_round_changes_it(connection: Connection) -> None:
    recorded(connection, "a", "b")
    first, again = compare(connection, "a", "b"), compare(connection, "a", "b")
    assert (again.status, again.comparison_id) == ("unchanged", first.comparison_id)
    turned = compare(connection, "b", "a")
    assert (turned.status, turned.comparison_id) == ("recorded", first.comparison_id)
    assert rows(connection, EVENTS) == [(1, "superseded"), (0, "superseded"), (1, None), (0, None)]
    [(preferred,)] = rows(connection, "SELECT preferred_target FROM v1.comparisons")
    assert preferred == "b"


def test_comparisons_with_several_stand_beside_each_other(connection: Connection) -> None:
    """a is better than b and worse than c: 1 and 0 of 2, the middle of -1 to 1. All three are one group."""
    a, *_ = recorded(connection, "a", "b", "c")
    compare(connection, "a", "b")
    compare(connection, "c", "a")
    assert trajectory_rewards(connection, [a.attribution.trajectory_id]) == {a.attribution.trajectory_id: 0.0}
    assert groups(connection) == {"comparison": ["abc"]}


def test_two_groups_of_compared_ones_become_one(connection: Connection) -> None:
    recorded(connection, "a", "b", "c", "d")
    compare(connection, "a", "b")
    compare(connection, "c", "d")
    compare(connection, "d", "a")
    assert groups(connection) == {"comparison": ["abcd"]}
    assert rows(connection, "SELECT count(*) FROM groups") == [(1,)]


def test_an_early_side_waits_for_its_row_and_then_they_are_paired(connection: Connection) -> None:
    recorded(connection, "a")
    result = compare(connection, "a", "b")
    assert (result.status, result.group_id, result.other.not_counted_reason) == ("early", None, "early")
    assert pair_up(connection) == 0
    record_calls(connection, [a_call(external_id="b", prompt_ids=[7])])
    assert compare(connection, "a", "b").status == "unchanged"
    assert pair_up(connection) == 1
    assert groups(connection) == {"comparison": ["ab"]}
    assert pair_up(connection) == 0


def close_group_of_a(connection: Connection, state: str) -> None:
    of_a = "(SELECT group_id FROM trajectories WHERE external_id = 'a')"
    connection.execute(text(f"UPDATE groups SET state = :state WHERE id = {of_a}"), {"state": state})


@pytest.mark.parametrize("pair", ["ab", "ba"])
@pytest.mark.parametrize("state", ["claimed", "trained"])
def test_a_group_that_a_step_uses_keeps_its_members(connection: Connection, state: str, pair: str) -> None:
    recorded(connection, "a", "b")
    close_group_of_a(connection, state)
    used_by_a_step(connection, 1.0)
    assert compare(connection, *pair).group_id is None
    assert groups(connection) == {"prompt": ["a", "b"]}


def test_who_was_left_out_of_a_closed_group_is_paired_where_it_goes_on(connection: Connection) -> None:
    """A late judgement moves it to the next group of its prompt, which is open."""
    recorded(connection, "a", "b")
    close_group_of_a(connection, "skipped")
    assert compare(connection, "a", "b").group_id is not None
    assert groups(connection) == {"comparison": ["ab"]}


def test_a_callers_group_keeps_its_members(connection: Connection) -> None:
    a_policy(connection)
    names = {"a": "mine", "b": None, "c": "mine"}
    calls = [
        a_call(external_id=name, group=group, prompt_ids=[1, number])
        for number, (name, group) in enumerate(names.items())
    ]
    record_calls(connection, calls)
    assert compare(connection, "a", "b").group_id is None
    assert compare(connection, "a", "c").group_id is not None  # the one they share
    assert groups(connection) == {"explicit": ["ac"], "prompt": ["b"]}


def test_choices_of_one_call_are_compared_within_their_group(connection: Connection) -> None:
    a_policy(connection)
    call = n_call(2)
    record_calls(connection, [call])
    sides = [RewardPost(str(call.call_id), choice=choice) for choice in (1, 0)]
    result = post_comparison(connection, "default", Comparison(sides[0], sides[1]))
    assert result.status == "recorded"
    assert rows(connection, "SELECT g.kind FROM comparisons AS c JOIN groups AS g ON g.id = c.group_id") == [
        ("choices",)
    ]


@pytest.mark.parametrize("other", ["a", "reply"])
def test_a_side_compared_with_itself_is_refused(connection: Connection, other: str) -> None:
    [call] = recorded(connection, "a")
    same = call.attribution.trajectory_id if other == "a" else call.call_id
    with pytest.raises(ComparisonRefusedError):
        compare(connection, "a" if other == "a" else call.call_id.hex, same)
    with pytest.raises(ComparisonRefusedError):
        compare(connection, "nobody", "nobody")
    assert rows(connection, "SELECT 1 FROM reward_events") == []


def test_an_id_means_one_comparison(connection: Connection) -> None:
    recorded(connection, "a", "b", "c")
    first = compare(connection, "a", "b", idempotency_id="x")
    compare(connection, "b", "a")
    assert compare(connection, "a", "b", idempotency_id="x").comparison_id == first.comparison_id
    assert rows(connection, "SELECT preferred_target FROM v1.comparisons") == [("b",)]
    for pair in (("b", "a"), ("a", "c")):
        with pytest.raises(RewardConflictError):
            compare(connection, *pair, idempotency_id="x")


def test_a_comparison_is_taken_back_whole(connection: Connection) -> None:
    a, b = recorded(connection, "a", "b")
    post(connection, "a", 0.5)
    made = compare(connection, "a", b.call_id)
    taken = retract_comparison(connection, "default", made.comparison_id, None)
    assert taken
    assert [half.taken_back and half.taken_back.value for half in (taken.preferred, taken.other)] == [
        1.0,
        0.0,
    ]
    rewards = trajectory_rewards(connection, [a.attribution.trajectory_id, b.attribution.trajectory_id])
    assert rewards == {a.attribution.trajectory_id: 0.5}
    assert rows(connection, "SELECT is_retracted FROM v1.comparisons") == [(True,)]
    again = retract_comparison(connection, "default", made.comparison_id, None)
    assert again
    assert again.status == "unchanged"
    assert compare(connection, "a", b.call_id).status == "recorded"
    assert rows(connection, "SELECT is_retracted FROM v1.comparisons") == [(False,)]


def test_an_early_comparison_is_taken_back_and_stays_so(connection: Connection) -> None:
    a_policy(connection)
    call = a_call(external_id="b")
    made = compare(connection, "a", call.call_id)
    taken = retract_comparison(connection, "default", made.comparison_id, None)
    assert taken
    record_calls(connection, [call, a_call(external_id="a", prompt_ids=[7])])
    assert trajectory_rewards(connection, [call.attribution.trajectory_id]) == {}
    assert pair_up(connection) == 0


def test_another_project_finds_no_comparison(connection: Connection) -> None:
    recorded(connection, "a", "b")
    a_policy(connection, "acme")
    made = compare(connection, "a", "b")
    assert retract_comparison(connection, "acme", made.comparison_id, None) is None
    assert retract_comparison(connection, "default", UUID(int=1), None) is None
