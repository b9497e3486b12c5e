"""What points to a trajectory goes with it; what others keep beside it costs nothing."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, Engine, event, text

from ledger import removal
from ledger.records import CallRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from tests.ledger.calls import an_attribution
from tests.ledger.retained import APRIL, MARCH, NOW, count, keep, record, removed, run, then


def judge_in_march(connection: Connection, *calls: CallRecord) -> None:
    """As if posted then: an event's month is in its own id."""
    with connection.begin():
        for call in calls:
            connection.execute(
                text("""
                INSERT INTO reward_events (id, project_id, target, trajectory_id, metric, value, source, is_retraction, observed_at)
                SELECT :id, project_id, '', id, 'reward', 1, 'user', false, now() FROM trajectories WHERE id = :trajectory_id
                """),
                {"id": then(MARCH).call_id, "trajectory_id": call.attribution.trajectory_id},
            )


@pytest.mark.parametrize("month_of_others", [MARCH, APRIL])
def test_a_trajectory_takes_its_names_and_rewards_along(
    ledger: Connection, engine: Engine, month_of_others: datetime
) -> None:
    """Whenever it was judged, and whether or not others keep rows of its month, or of the rewards'."""
    keep(ledger, 30)
    keep(ledger, 10_000, policy="other")
    calls = [
        then(moment, policy=policy, attribution=an_attribution(external_id=policy, trajectory_id=then(moment).call_id))
        for moment, policy in ((MARCH, "default"), (month_of_others, "other"))
    ]  # fmt: skip
    record(ledger, *calls)
    judge_in_march(ledger, *calls)
    with ledger.begin():
        for target in ("default", "other"):
            post_reward(ledger, "default", RewardPost(target, value=0.5))
    run(engine, NOW)
    assert [count(ledger, table) for table in ("trajectories", "trajectory_names", "reward_events")] == [1, 1, 2]  # fmt: skip
    months = [f"{month:%Y-%m}" for month, table, *_ in removed(ledger) if table == "reward_events"]
    assert months == ["2026-03", f"{datetime.now(UTC):%Y-%m}"]


def test_what_others_keep_beside_it_is_not_gone_through_each_time(
    ledger: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A month is over for years: one look each hour must not cost what its rows do."""
    monkeypatch.setattr(removal, "MAX_BATCH", 1)
    keep(ledger, 30)
    keep(ledger, 10_000, policy="other")
    call, commits = then(MARCH, policy="other"), []
    record(ledger, call)
    judge_in_march(ledger, call)
    run(engine, NOW)  # the empty months
    event.listen(engine, "commit", lambda _: commits.append(1))
    run(engine, NOW)
    num_commits = len(commits)
    judge_in_march(ledger, *[call] * 10)
    commits.clear()
    run(engine, NOW)
    assert len(commits) == num_commits > 0
    assert count(ledger, "reward_events_2026_03") == 11
