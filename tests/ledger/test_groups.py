"""When a group is ready: the table of docs/decisions/0015, row by row."""

from typing import Any

from sqlalchemy import Connection, text

from ledger.groups.readiness import Readiness, ReadyGroup, ready_groups
from ledger.groups.routes import route_of
from ledger.identifiers import new_id
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from tests.ledger.calls import a_call, a_policy, an_attribution, n_call

NOBODY = Readiness(grace_seconds=60, deadline_seconds=600, has_running=False)
WHEN = Readiness(grace_seconds=60, deadline_seconds=600, min_samples=4)


def ready(connection: Connection, when: Readiness = NOBODY, limit: int = 10) -> list[tuple[int, int]]:
    found: list[ReadyGroup] = ready_groups(connection, a_policy(connection).id, when, limit=limit)
    return [(group.num_members, group.num_scored) for group in found]


def score(connection: Connection, *calls: CallRecord, value: float = 1.0) -> None:
    for call in calls:
        post_reward(connection, "default", RewardPost(str(call.attribution.trajectory_id), value=value))


def age(connection: Connection, seconds: float) -> None:
    """All that was recorded and judged so far happened so long ago."""
    columns = (("groups", "last_member_at"), ("groups", "created_at"), ("reward_events", "created_at"))
    for table, column in columns:
        connection.execute(
            text(f"UPDATE {table} SET {column} = now() - make_interval(secs => :age)"), {"age": seconds}
        )


def grouped(connection: Connection, num: int, name: str = "g", **changes: Any) -> list[CallRecord]:
    a_policy(connection)
    calls = [a_call(group=name, **changes) for _ in range(num)]
    record_calls(connection, calls)
    return calls


def alone(connection: Connection, num: int, first: int = 0, **changes: Any) -> list[CallRecord]:
    """Calls that nobody asked again, each in a prompt group of its own."""
    a_policy(connection)
    calls = [a_call(prompt_ids=[*range(1, 40), first + k], **changes) for k in range(num)]
    record_calls(connection, calls)
    return calls


def history(connection: Connection, call: CallRecord, num_samples: int) -> None:
    connection.execute(
        text(
            "INSERT INTO route_baselines (policy_id, route, mean, variance, num_samples, step_id)"
            " VALUES (:policy_id, :route, 0.5, 0.25, :num, :step_id)"
        ),
        {
            "policy_id": a_policy(connection).id,
            "route": route_of(call),
            "num": num_samples,
            "step_id": new_id(),
        },
    )


def test_the_choices_of_a_call_are_ready_once_all_are_scored(connection: Connection) -> None:
    a_policy(connection)
    call = n_call(3)
    record_calls(connection, [call])
    for choice in range(3):
        assert ready(connection) == []
        post_reward(connection, "default", RewardPost(str(call.call_id), value=0.1 * choice, choice=choice))
    assert ready(connection) == [(3, 3)]


def test_a_group_without_size_waits_for_its_grace_period(connection: Connection) -> None:
    calls = grouped(connection, 2)
    score(connection, *calls)
    assert ready(connection) == []
    age(connection, 61)
    assert ready(connection) == [(2, 2)]


def test_a_declared_size_that_is_reached_does_not_wait(connection: Connection) -> None:
    a_policy(connection)
    calls = [a_call(attribution=an_attribution(group_key="g", group_size=2)) for _ in range(2)]
    record_calls(connection, calls)
    score(connection, *calls)
    assert ready(connection) == [(2, 2)]


def test_two_scored_members_wait_for_the_others_only_for_the_grace_period(connection: Connection) -> None:
    calls = grouped(connection, 3)
    score(connection, *calls[:2])
    assert ready(connection) == []
    age(connection, 61)
    assert ready(connection) == [(3, 2)]


def test_rewards_that_keep_coming_hold_a_group_back(connection: Connection) -> None:
    """Whoever judges eight answers one by one does not see the first two trained without the others."""
    calls = grouped(connection, 3)
    score(connection, *calls[:2])
    age(connection, 61)
    score(connection, calls[2])
    assert ready(connection) == []
    age(connection, 61)
    assert ready(connection) == [(3, 3)]


def test_a_reward_that_is_being_changed_is_waited_for(connection: Connection) -> None:
    calls = grouped(connection, 2)
    score(connection, *calls)
    age(connection, 61)
    score(connection, calls[0], value=0.0)
    assert ready(connection) == []
    age(connection, 61)
    assert ready(connection) == [(2, 2)]


def test_one_scored_member_is_ready_at_the_deadline_whatever_it_can_be_compared_with(
    connection: Connection,
) -> None:
    """The step then says `no_baseline`, or `group_incomplete`: nothing waits for ever."""
    calls = grouped(connection, 2)
    score(connection, calls[0])
    age(connection, 599)
    assert ready(connection) == ready(connection, WHEN) == []
    age(connection, 601)
    assert ready(connection) == ready(connection, WHEN) == [(2, 1)]


def test_a_group_that_nobody_scored_is_never_ready(connection: Connection) -> None:
    grouped(connection, 2)
    age(connection, 10_000)
    assert ready(connection) == ready(connection, WHEN) == []


def test_a_lone_reward_is_ready_where_its_route_has_enough_samples(connection: Connection) -> None:
    (call,) = alone(connection, 1)
    score(connection, call)
    age(connection, 61)
    assert ready(connection, WHEN) == []
    history(connection, call, 4)
    assert ready(connection, WHEN) == [(1, 1)]
    assert ready(connection) == []  # the running baseline is switched off


def test_lone_rewards_of_one_route_wait_until_there_are_enough_of_them_together(
    connection: Connection,
) -> None:
    """Each is compared with the four others."""
    calls = alone(connection, 5)
    score(connection, *calls[:4])
    age(connection, 61)
    assert ready(connection, WHEN) == []
    score(connection, calls[4])
    age(connection, 61)
    assert ready(connection, WHEN) == [(1, 1)] * 5


def test_the_samples_of_another_route_are_not_enough(connection: Connection) -> None:
    other = {
        "messages": [{"role": "system", "content": "Answer in verse."}, {"role": "user", "content": "q"}]
    }
    score(connection, *alone(connection, 4), *alone(connection, 4, 50, **other))
    age(connection, 61)
    assert ready(connection, WHEN) == []


def test_a_lone_reward_waits_for_its_grace_period(connection: Connection) -> None:
    (call,) = alone(connection, 1)
    history(connection, call, 4)
    score(connection, call)
    assert ready(connection, WHEN) == []
    age(connection, 61)
    assert ready(connection, WHEN) == [(1, 1)]


def test_a_late_member_is_ready_where_its_task_was_trained_before(connection: Connection) -> None:
    first = grouped(connection, 2)
    score(connection, *first)
    connection.execute(text("UPDATE groups SET state = 'trained', reward_mean = 0.5, num_scored = 2"))
    late = grouped(connection, 1)
    score(connection, *late)
    age(connection, 61)
    assert ready(connection) == [(1, 1)]
    connection.execute(text("UPDATE groups SET num_scored = 1 WHERE state = 'trained'"))
    assert ready(connection) == []


def test_groups_that_cannot_be_used_yet_hold_up_nobody(connection: Connection) -> None:
    """However many are older: only what is ready takes a place in a step."""
    score(connection, *alone(connection, 3))
    calls = grouped(connection, 2)
    score(connection, *calls)
    age(connection, 61)
    assert ready(connection, WHEN, limit=1) == [(2, 2)]


def test_only_open_groups_are_ready_oldest_first_and_within_the_limit(connection: Connection) -> None:
    for size in (2, 3):
        score(connection, *grouped(connection, size, name=f"g{size}"))
    age(connection, 61)
    assert ready(connection) == [(2, 2), (3, 3)]
    assert ready(connection, limit=1) == [(2, 2)]
    connection.execute(text("UPDATE groups SET state = 'claimed' WHERE key = 'g2'"))
    assert ready(connection) == [(3, 3)]


def test_a_partial_reward_is_waited_for_until_the_deadline(connection: Connection) -> None:
    calls = grouped(connection, 2)
    score(connection, calls[0])
    partial = RewardPost(str(calls[1].attribution.trajectory_id), value=0.5, is_final=False)
    post_reward(connection, "default", partial)
    age(connection, 599)
    assert ready(connection) == []
    age(connection, 601)
    assert ready(connection) == [(2, 2)]


def test_a_final_reward_beside_the_partial_one_is_enough(connection: Connection) -> None:
    calls = grouped(connection, 2)
    target = str(calls[1].attribution.trajectory_id)
    score(connection, calls[0])
    post_reward(connection, "default", RewardPost(target, value=0.5, is_final=False))
    post_reward(connection, "default", RewardPost(target, value=1.0, source="program"))
    age(connection, 61)
    assert ready(connection) == [(2, 2)]
