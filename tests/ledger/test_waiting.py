"""What an open group waits for, and until when: told from the conditions by which a step takes it."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, text

from ledger.explanation.facts import read_explanation
from ledger.groups.readiness import Readiness
from ledger.groups.waiting import OpenGroup, open_group, scored_groups
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import GroupWaitsFor
from ledger.workers import worker_started
from tests.ledger.calls import a_call, a_policy, an_attribution

WHEN = Readiness(grace_seconds=60, deadline_seconds=600, min_samples=4)


def group_of(
    connection: Connection, calls: list[CallRecord], rewards: list[float | None], **post: Any
) -> OpenGroup:
    policy = a_policy(connection)
    record_calls(connection, calls)
    for call, reward in zip(calls, rewards, strict=True):
        if reward is not None:
            target = str(call.attribution.trajectory_id)
            post_reward(connection, "default", RewardPost(target, value=reward, **post))
    group_id = connection.scalar(text("SELECT id FROM groups"))
    return open_group(connection, policy.id, group_id, WHEN)


def members(number: int, size: int | None = None) -> list[CallRecord]:
    return [a_call(attribution=an_attribution(group_key="g", group_size=size)) for _ in range(number)]


CASES: list[tuple[int, int | None, list[float | None], dict[str, Any], tuple[str, ...], int | None]] = [
    (2, None, [None, None], {}, ("scores",), None),
    (2, None, [1.0, 0.0], {}, ("grace",), 60),
    (3, None, [1.0, 0.0, None], {}, ("scores", "grace"), 60),
    (2, 4, [1.0, 0.0], {}, ("members", "grace"), 60),
    (2, 2, [1.0, 0.0], {"is_final": False}, ("final",), 600),
    (1, None, [1.0], {}, ("baseline",), 600),
    (2, 2, [1.0, 0.0], {}, ("step",), None),
]


@pytest.mark.parametrize(("number", "size", "rewards", "post", "waits_for", "seconds"), CASES)
def test_what_a_group_waits_for_and_until_when(
    connection: Connection,
    *,
    number: int,
    size: int | None,
    rewards: list[float | None],
    post: dict[str, Any],
    waits_for: tuple[str, ...],
    seconds: int | None,
) -> None:
    found = group_of(connection, members(number, size), rewards, **post)
    assert found.waits_for == waits_for
    assert found.is_ready is (waits_for == (GroupWaitsFor.STEP,))
    now = connection.execute(text("SELECT now()")).scalar_one()  # the transaction's, as is the reward's
    assert found.ready_at == (None if seconds is None else now + timedelta(seconds=seconds))


def test_groups_without_a_reward_are_in_no_list(connection: Connection) -> None:
    group_of(connection, members(2), [None, None])
    assert scored_groups(connection, a_policy(connection).id, WHEN, limit=10) == []


def test_the_explanation_tells_it(connection: Connection) -> None:
    calls = members(2, 4)
    group_of(connection, calls, [1.0, 0.0])
    target = str(calls[0].attribution.trajectory_id)
    found = read_explanation(connection, "default", target)
    assert found is not None
    assert found["group"]["waiting"] is None
    assert "No worker was ever started for this policy" in "\n".join(found["story"])
    settings = {"group_grace_seconds": 60, "group_deadline_seconds": 600}  # as an older worker would tell
    worker_started(connection, policy="default", base_model="base", owner="w", settings=settings)
    found = read_explanation(connection, "default", target)
    assert found is not None
    assert found["group"]["waiting"]["waits_for"] == ("members", "grace")
    assert "it waits for the members that were declared and the end of its grace period, at 20" in "\n".join(
        found["story"]
    )
