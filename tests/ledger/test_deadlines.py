"""The deadline of a group counts from its first reward: nothing that comes later moves it."""

from sqlalchemy import Connection, text

from ledger.groups.readiness import ready_groups
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from tests.ledger.calls import a_policy
from tests.ledger.test_groups import NOBODY, age, alone, grouped, ready, score


def test_a_group_in_steady_use_is_ready_at_the_deadline_after_its_first_reward(
    connection: Connection,
) -> None:
    """Whoever comes meanwhile, and however often a partial reward is changed: nothing moves the deadline."""
    calls = grouped(connection, 3)
    score(connection, *calls[:2])
    age(connection, 599)
    grouped(connection, 1)
    assert ready(connection) == []
    age(connection, 601)
    grouped(connection, 1)
    assert ready(connection) == [(5, 2)]


def test_a_reward_that_takes_anothers_place_does_not_move_the_deadline(connection: Connection) -> None:
    (call,) = alone(connection, 1)
    target = str(call.attribution.trajectory_id)
    post_reward(connection, "default", RewardPost(target, value=0.1, is_final=False))
    age(connection, 601)
    post_reward(connection, "default", RewardPost(target, value=0.2, is_final=False))
    assert ready(connection) == [(1, 1)]


def test_a_reward_of_another_metric_or_one_before_the_group_does_not_begin_the_deadline(
    connection: Connection,
) -> None:
    (call,) = alone(connection, 1)
    target = str(call.attribution.trajectory_id)
    post_reward(connection, "default", RewardPost(target, metric="mood", value=1.0))
    age(connection, 601)
    score(connection, call)
    assert ready(connection) == []
    age(connection, 601)
    connection.execute(text("UPDATE groups SET created_at = now()"))
    connection.execute(text("UPDATE groups SET last_member_at = now()"))
    assert ready(connection) == []


def test_a_group_in_steady_use_waits_for_its_step_since_its_first_reward(connection: Connection) -> None:
    calls = grouped(connection, 2)
    score(connection, calls[0])
    age(connection, 601)
    grouped(connection, 1)
    (group,) = ready_groups(connection, a_policy(connection).id, NOBODY, limit=1)
    since = "SELECT extract(epoch FROM now() - CAST(:moment AS timestamptz))"
    assert connection.scalar(text(since), {"moment": group.waiting_since}) >= 601
