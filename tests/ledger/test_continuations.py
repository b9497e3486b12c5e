"""The conversation rule at recording: for turns that the proxy could not place (docs/decisions/0007-data-plane.md)."""

import itertools
import random
from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, text

from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ExchangeStatus
from tests.ledger.calls import (
    a_choice,
    a_policy,
    everything,
    later,
    rows,
)
from tests.ledger.continued import known, outcome, talk, trajectories_of
from tests.ledger.together import run_all


@pytest.mark.parametrize("is_known", [False, True])
def test_five_turns_in_any_order_are_one_trajectory(connection: Connection, is_known: bool) -> None:
    """I4: also in pieces, replayed, and with the rows that they have in order."""
    a_policy(connection)
    connection.commit()
    turns = talk(5)
    if is_known:
        turns = [replace(turns[0], attribution=replace(turns[0].attribution, metadata={"a": 1}))] + [
            known(turn, turns[0]) for turn in turns[1:]
        ]
    found = []
    for order in itertools.permutations(turns):
        transaction = connection.begin()
        for start in range(0, 5, 2 if order[0] is turns[0] else 1):
            record_calls(connection, order[start : start + 2])
        once = everything(connection)
        record_calls(connection, order)
        assert everything(connection) == once
        found.append(outcome(connection))
        transaction.rollback()
    assert {row[1] for row in found[0][0]} == {turns[0].attribution.trajectory_id}
    assert [row[2] for row in found[0][0]] == ["new", *["conversation"] * 4]
    assert all(one == found[0] for one in found)


def test_two_recorders_write_talks_in_pieces(engine: Engine) -> None:
    """Two connections at once, some turns placed by the proxy and some not: a trajectory a talk."""
    with engine.begin() as connection:
        a_policy(connection)
    talks = [talk(5, n / 100, f"answer {n}") for n in range(8)]
    calls = []
    for n, turns in enumerate(talks):
        before = turns[0]
        for number, turn in enumerate(turns):  # what the proxy knows is the id that it gave the turn before
            before = known(turn, before) if number and (number + n) % 2 else turn
            calls.append(before)

    def recorder(seed: int) -> None:
        mine = random.Random(seed).sample(calls, len(calls))
        for start in range(0, len(mine), 4):
            with engine.begin() as connection:
                record_calls(connection, mine[start : start + 4])

    run_all([lambda seed=seed: recorder(seed) for seed in range(2)])
    with engine.connect() as connection:
        assert set(trajectories_of(connection)) == {turns[0].attribution.trajectory_id for turns in talks}
        assert rows(connection, "SELECT count(*) FROM trajectories") == [(8,)]
        assert rows(connection, "SELECT count(*), count(DISTINCT group_id) FROM trajectories") == [(8, 1)]


def test_later_turns_are_stored_as_deltas(connection: Connection) -> None:
    a_policy(connection)
    for turn in talk(3):
        record_calls(connection, [turn])
    assert [row[0] for row in rows(connection, "SELECT cardinality(prompt_ids) FROM exchanges ORDER BY id")] == [11, 10, 10]  # fmt: skip


@pytest.mark.parametrize("is_one_batch", [False, True])
def test_an_answered_turn_is_continued_once(connection: Connection, is_one_batch: bool) -> None:
    a_policy(connection)
    first, second = talk(2)
    again = replace(second, call_id=later(5), attribution=replace(second.attribution, trajectory_id=later(5)))
    for batch in [[first, second, again]] if is_one_batch else [[first], [second], [again]]:
        record_calls(connection, batch)
    mine = first.attribution.trajectory_id
    assert trajectories_of(connection) == [mine, mine, again.attribution.trajectory_id]


def test_two_equal_answers_are_each_continued(connection: Connection) -> None:
    a_policy(connection)
    one, other = talk(2), talk(2, 10)
    for calls in ([one[0], other[0]], [other[1]], [replace(one[1], call_id=later(20))]):
        record_calls(connection, calls)
    mine, others = one[0].attribution.trajectory_id, other[0].attribution.trajectory_id
    assert trajectories_of(connection) == [mine, others, others, mine], "the latest open one first"


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_failed_turn_leaves_its_place_to_the_next(connection: Connection, is_reversed: bool) -> None:
    a_policy(connection)
    first, second = talk(2)
    failed = replace(second, status=ExchangeStatus.FAILED, choices=[], attribution=replace(second.attribution, trajectory_id=later(9)))  # fmt: skip
    again = replace(second, call_id=later(2))
    calls = [first, failed, again]
    for call in reversed(calls) if is_reversed else calls:
        record_calls(connection, [call])
    assert set(trajectories_of(connection)) == {first.attribution.trajectory_id}


def test_a_named_talk_goes_on_without_its_name(connection: Connection) -> None:
    a_policy(connection)
    first, second = talk(2)
    first = replace(first, attribution=replace(first.attribution, external_id="run", identified_by="header"))
    record_calls(connection, [second])
    record_calls(connection, [first])
    assert set(trajectories_of(connection)) == {first.attribution.trajectory_id}
    assert rows(connection, "SELECT external_id, identified_by FROM trajectories") == [("run", "header")]


def test_projects_never_mix(connection: Connection) -> None:
    """Equal digests, and even ids, of another project are nothing to us."""
    a_policy(connection)
    a_policy(connection, "other")
    turns = talk(3)
    for turn in turns[:2]:
        record_calls(connection, [turn])
    foreign = replace(talk(3, 10)[1], project="other")
    stolen = known(talk(3, 20)[2], turns[0], project="other")
    record_calls(connection, [foreign])
    record_calls(connection, [stolen])
    record_calls(connection, [replace(turns[2], project="other", call_id=later(30))])
    assert rows(connection, "SELECT count(DISTINCT t.project_id) FROM exchanges e JOIN trajectories t ON t.id = e.trajectory_id WHERE t.project_id <> e.project_id") == [(0,)]  # fmt: skip
    assert rows(connection, "SELECT trajectory_id FROM exchanges WHERE project_id <> (SELECT id FROM projects WHERE name = 'default') ORDER BY id") == [
        (foreign.attribution.trajectory_id,), (stolen.call_id,), (foreign.attribution.trajectory_id,),
    ]  # fmt: skip


def test_a_claimed_talk_keeps_its_trajectory_and_its_beginning_joins_it(connection: Connection) -> None:
    """I6."""
    a_policy(connection)
    first, second = talk(2)
    first = replace(first, attribution=replace(first.attribution, external_id="run", identified_by="header"))
    record_calls(connection, [second])
    connection.execute(text("UPDATE groups SET state = 'claimed'"))
    record_calls(connection, [first])
    assert set(trajectories_of(connection)) == {second.attribution.trajectory_id}
    assert rows(connection, "SELECT count(*) FROM trajectories JOIN groups g ON g.id = group_id") == [(1,)]
    for name in ("run", str(first.attribution.trajectory_id)):
        post_reward(connection, "default", RewardPost(name, value=1.0, source=name))
    assert rows(connection, "SELECT trajectory_id FROM v1.rewards WHERE is_counted") == [
        (second.attribution.trajectory_id,), (second.attribution.trajectory_id,),
    ]  # fmt: skip


def test_the_other_choices_of_a_turn_begin_their_own_trajectories(connection: Connection) -> None:
    a_policy(connection)
    first, second = talk(2)
    siblings = replace(first, num_choices=2, choices=[*first.choices, a_choice(1)])
    two = {"num_choices": 2, "choices": [a_choice(0), a_choice(1)]}
    record_calls(connection, [siblings])
    record_calls(connection, [known(second, first, **two)])
    mine = first.attribution.trajectory_id
    assert trajectories_of(connection) == [
        mine,
        UUID(int=mine.int + 1),
        mine,
        UUID(int=second.call_id.int + 1),
    ]


def test_an_id_given_out_for_a_turn_names_the_trajectory_for_later_turns(connection: Connection) -> None:
    """The proxy that could not place turn 2 goes on to place turn 3 by the id that it gave turn 2."""
    a_policy(connection)
    first, second, third = talk(3)
    for call in (first, second, known(third, second)):
        record_calls(connection, [call])
    assert set(trajectories_of(connection)) == {first.attribution.trajectory_id}
