from sqlalchemy import Connection, text

from ledger.groups import ReadyGroup, ready_groups
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards import RewardPost, post_reward
from tests.ledger.calls import a_call, a_policy, an_attribution, n_call


def ready(
    connection: Connection, grace: float = 60, deadline: float = 600, limit: int = 10
) -> list[tuple[int, int]]:
    policy = a_policy(connection)
    found: list[ReadyGroup] = ready_groups(
        connection, policy.id, grace_seconds=grace, deadline_seconds=deadline, limit=limit
    )
    return [(group.num_members, group.num_scored) for group in found]


def score(connection: Connection, *calls: CallRecord) -> None:
    for call in calls:
        post_reward(connection, "default", RewardPost(str(call.attribution.trajectory_id), value=1.0))


def age(connection: Connection, seconds: float) -> None:
    connection.execute(
        text("UPDATE groups SET last_member_at = now() - make_interval(secs => :age)"), {"age": seconds}
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
    a_policy(connection)
    calls = [a_call(group="g") for _ in range(2)]
    record_calls(connection, calls)
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


def test_unscored_members_hold_a_group_back_until_its_deadline(connection: Connection) -> None:
    a_policy(connection)
    calls = [a_call(group="g") for _ in range(3)]
    record_calls(connection, calls)
    score(connection, *calls[:2])
    age(connection, 61)
    assert ready(connection) == []
    age(connection, 601)
    assert ready(connection) == [(3, 2)]


def test_one_scored_member_is_never_ready(connection: Connection) -> None:
    a_policy(connection)
    calls = [a_call(group="g") for _ in range(2)]
    record_calls(connection, calls)
    score(connection, calls[0])
    age(connection, 10_000)
    assert ready(connection) == []


def test_only_open_groups_are_ready_oldest_first_and_within_the_limit(connection: Connection) -> None:
    a_policy(connection)
    for size in (2, 3):
        calls = [a_call(group=f"g{size}") for _ in range(size)]
        record_calls(connection, calls)
        score(connection, *calls)
    age(connection, 61)
    assert ready(connection) == [(2, 2), (3, 3)]
    assert ready(connection, limit=1) == [(2, 2)]
    connection.execute(text("UPDATE groups SET state = 'claimed' WHERE key = 'g2'"))
    assert ready(connection) == [(3, 3)]
