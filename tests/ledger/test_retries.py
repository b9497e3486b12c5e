"""B080: an SDK's retry is linked to the call that it repeats, and never a second sample."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, text

from ledger.identifiers import choice_id
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.rewards.targets import resolve
from ledger.vocabulary import ExchangeStatus
from tests.ledger.calls import a_call, a_policy, an_attribution, later, n_call, rows, sent
from tests.ledger.together import run_all

STATE = """
    SELECT e.id, e.retry_of, e.is_trainable, e.untrainable_reason, e.trajectory_id
    FROM exchanges AS e ORDER BY e.id
"""
MEMBERS = """
    SELECT g.key, g.size, t.id FROM groups AS g LEFT JOIN trajectories AS t ON t.group_id = g.id ORDER BY 1, 3
"""


def chosen(connection: Connection) -> list[UUID]:
    return [row[0] for row in rows(connection, "SELECT id FROM exchanges WHERE is_trainable ORDER BY id")]


def test_the_later_answer_is_the_sample_and_both_rows_stay(connection: Connection) -> None:
    a_policy(connection)
    first, second = sent(), sent(1, 1)
    record_calls(connection, [first])
    record_calls(connection, [second])
    trajectory_id = first.attribution.trajectory_id
    assert rows(connection, STATE) == [
        (first.call_id, None, False, "duplicate_retry", trajectory_id),
        (second.call_id, first.call_id, True, None, trajectory_id),
    ]
    assert [row[2] for row in rows(connection, MEMBERS)] == [trajectory_id]


def test_a_retry_that_broke_off_leaves_the_first_answer_a_sample(connection: Connection) -> None:
    a_policy(connection)
    first = sent()
    record_calls(connection, [first, sent(1, 1, status=ExchangeStatus.CANCELLED)])
    assert chosen(connection) == [first.call_id]
    assert [row[3] for row in rows(connection, STATE)] == [None, "cancelled"]


def test_other_reasons_are_not_overwritten(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [sent(temperature=0.0), sent(1, 1, temperature=0.0)])
    assert [row[3] for row in rows(connection, STATE)] == ["greedy", "greedy"]


@pytest.mark.parametrize(
    "other",
    [
        {"num_retries": 0},
        {"key_id": UUID(int=8)},
        {"key_id": None},
        {"request_sha256": "cd" * 32},
        {"request_sha256": None},
        {"endpoint": "/v1/completions"},
        {"project": "other"},
        {"call_id": later(901)},
        {"call_id": later(-1)},
    ],
    ids=["unmarked", "key", "no key", "body", "no digest", "endpoint", "project", "too late", "before"],
)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_what_is_no_retry_of_a_call_is_a_sample(
    connection: Connection, other: dict[str, Any], is_reversed: bool
) -> None:
    a_policy(connection)
    a_policy(connection, "other")
    calls = [sent(), replace(sent(1, 1), **other)]
    for call in reversed(calls) if is_reversed else calls:
        record_calls(connection, [call])
    assert len(chosen(connection)) == 2
    assert [row[1] for row in rows(connection, STATE)] == [None, None]
    assert rows(connection, "SELECT count(DISTINCT trajectory_id) FROM exchanges") == [(2,)]


def test_identical_calls_keep_their_own_retries(connection: Connection) -> None:
    """Three equal samples at once, of which the second and third are tried again: three samples."""
    a_policy(connection)
    calls = [sent(n / 100, is_delivered=n == 0) for n in range(3)] + [sent(1, 1), sent(1.1, 1)]
    record_calls(connection, calls)
    assert chosen(connection) == [calls[0].call_id, calls[3].call_id, calls[4].call_id]
    assert [row[1] for row in rows(connection, STATE)][3:] == [calls[2].call_id, calls[1].call_id]
    assert len({row[4] for row in rows(connection, STATE)}) == 3


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("group", [None, "task"])
@pytest.mark.parametrize("names", [(None, None), ("run", "run"), ("run", "again")])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_group_never_holds_both(
    connection: Connection, n: int, group: str | None, names: tuple[str | None, str | None], is_reversed: bool
) -> None:
    a_policy(connection)
    calls = [
        sent(
            k,
            k,
            num_choices=n,
            choices=n_call(n).choices,
            attribution=an_attribution(external_id=name, group_key=group),
        )
        for k, name in enumerate(names)
    ]
    for call in reversed(calls) if is_reversed else calls:
        record_calls(connection, [call])
    members = rows(connection, MEMBERS)
    assert chosen(connection) == [choice_id(calls[1].call_id, k) for k in range(n)]
    assert len(members) == n
    assert {row[2] for row in members} == {row[4] for row in rows(connection, STATE) if row[2]}


@pytest.mark.parametrize("state", ["claimed", "trained"])
@pytest.mark.parametrize("names", [(None, None), ("run", "again")])
def test_what_a_step_took_stays_and_the_retry_is_the_duplicate(
    connection: Connection, state: str, names: tuple[str | None, str | None]
) -> None:
    """I6."""
    a_policy(connection)
    first, second, third = (
        sent(k, k, attribution=an_attribution(external_id=names[k > 0])) for k in range(3)
    )
    record_calls(connection, [first])
    connection.execute(text("UPDATE groups SET state = :state"), {"state": state})
    before = rows(connection, MEMBERS)
    record_calls(connection, [second])
    record_calls(connection, [third])
    assert chosen(connection) == [first.call_id]
    assert rows(connection, MEMBERS) == before
    assert [row[1] for row in rows(connection, STATE)] == [None, first.call_id, second.call_id]


def test_a_retry_that_a_step_took_before_its_call_was_recorded_stays(connection: Connection) -> None:
    a_policy(connection)
    first, second = sent(), sent(1, 1)
    record_calls(connection, [second])
    connection.execute(text("UPDATE groups SET state = 'claimed'"))
    record_calls(connection, [first])
    assert chosen(connection) == [second.call_id]
    assert {row[4] for row in rows(connection, STATE)} == {second.attribution.trajectory_id}
    assert rows(connection, "SELECT count(*) FROM trajectories") == [(1,)]


def test_a_broken_off_call_is_repeated_by_all_choices_of_its_retry(connection: Connection) -> None:
    a_policy(connection)
    first = sent(status=ExchangeStatus.FAILED, choices=[], num_choices=3)
    second = sent(1, 1, num_choices=3, choices=n_call(3).choices)
    record_calls(connection, [first])
    record_calls(connection, [second])
    assert [row[1] for row in rows(connection, STATE)] == [None] + [first.call_id] * 3
    assert [row[:2] for row in rows(connection, MEMBERS)] == [(second.call_id.hex, 3)] * 3


def test_every_id_that_was_given_out_reaches_the_trajectory(connection: Connection) -> None:
    """I5: rewards early, by the retry's id, and after the trajectories became one."""
    policy = a_policy(connection)
    first, second = sent(), sent(1, 1)
    ids = [str(call.attribution.trajectory_id) for call in (first, second)]
    post_reward(connection, "default", RewardPost(ids[1], value=0.5, source="early"))
    record_calls(connection, [second])
    post_reward(connection, "default", RewardPost(ids[1], value=0.5, source="before"))
    post_reward(connection, "default", RewardPost(ids[0], value=0.5, source="early too"))
    record_calls(connection, [first])
    post_reward(connection, "default", RewardPost(ids[1], value=0.5, source="after"))
    assert rows(connection, "SELECT source, trajectory_id FROM v1.rewards WHERE is_counted ORDER BY id") == [
        (source, first.attribution.trajectory_id) for source in ("early", "before", "early too", "after")
    ]
    for text_id in ids:
        judged = resolve(connection, policy.project_id, text_id, None)
        assert judged is not None
        assert judged.trajectory_id == first.attribution.trajectory_id
    go_on = a_call(attribution=an_attribution(external_id=ids[1], identified_by="header"))
    record_calls(connection, [go_on])
    assert {row[4] for row in rows(connection, STATE)} == {first.attribution.trajectory_id}


def test_a_reward_on_its_way_is_not_left_behind(engine: Engine) -> None:
    """I5: it holds the trajectory that is about to become part of another."""
    first, second = sent(), sent(1, 1)
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [second])

    def record() -> None:
        with engine.begin() as connection:
            record_calls(connection, [first])

    with engine.connect() as rewarder:
        post_reward(rewarder, "default", RewardPost(str(second.call_id), value=1.0))
        run_all([record, lambda: _commit_soon(rewarder)])
    with engine.connect() as connection:
        assert rows(connection, "SELECT trajectory_id FROM reward_events") == [
            (first.attribution.trajectory_id,)
        ]


def _commit_soon(connection: Connection) -> None:
    connection.execute(text("SELECT pg_sleep(0.3)"))
    connection.commit()
