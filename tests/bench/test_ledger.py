"""The ledger's bench: its world is the same each time, its calls are what it says, and a missed target is said."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from bench.ledger import questions
from bench.ledger.calls import calls, raw_json
from bench.ledger.report import verdicts
from bench.ledger.traffic import Traffic
from bench.ledger.world import Plan, Reward, Trajectory
from ledger.database import database_address
from ledger.recording import record_calls
from ledger.request_body import derived
from tests.ledger.calls import a_policy

PLAN = Plan(3_000, datetime(2026, 11, 29, tzinfo=UTC), num_days=60, num_versions=6)


def test_the_same_plan_gives_the_same_world() -> None:
    assert list(Traffic(PLAN).tasks()) == list(Traffic(PLAN).tasks())


def test_a_world_spreads_over_its_time_and_everything_happens_in_it() -> None:
    traffic = Traffic(PLAN)
    exchanges = [e for task in traffic.tasks() for t in task.trajectories for e in t.exchanges]
    days = {(e.at_ms - PLAN.since_ms) // 86_400_000 for e in exchanges}
    assert (min(days), len(days) >= 57, max(e.at_ms for e in exchanges) <= PLAN.until_ms) == (0, True, True)
    assert {e.status for e in exchanges} == {"completed", "cancelled", "failed", "interrupted"}
    assert {e.version is None for e in exchanges} == {True, False}
    assert any(e.retry_of for e in exchanges)
    assert {sample.staleness for step in traffic.steps.values() for _, sample in step.samples} >= {0, 1}


def test_the_reward_of_a_trajectory_by_hand() -> None:
    """User: 1, then 0; judge: 1, taken back; program: -1 for one exchange -> (0 - 1) / 2."""
    events = [
        Reward(1, 0, 7, None, "reward", 1.0, "user"),
        Reward(2, 0, 7, None, "reward", 0.0, "user"),
        Reward(3, 0, 7, None, "reward", 1.0, "judge"),
        Reward(4, 0, 7, None, "reward", None, "judge", is_retraction=True),
        Reward(5, 0, 7, 9, "reward", -1.0, "program"),
        Reward(6, 0, 7, None, "politeness", 1.0, "user"),
        Reward(7, 0, None, None, "reward", 1.0, "early"),
    ]
    assert Trajectory(7, 0, "u", "p", rewards=events).reward() == -0.5


def test_the_calls_are_trainable_rows_of_nine_kilobytes(connection: Connection) -> None:
    a_policy(connection)
    made = list(islice(calls(50), 50))
    record_calls(connection, [derived(call) for call in made])
    whole = text("SELECT count(*), count(*) FILTER (WHERE is_trainable) FROM exchanges")
    assert tuple(connection.execute(whole).one()) == (50, 50)
    size = text("SELECT avg(length(CAST(e AS text))) FROM (SELECT * FROM exchanges) AS e")
    assert 9_000 <= (connection.scalar(size) or 0) <= 10_500
    assert 9_000 <= len(raw_json(made[0])) <= 12_500


def plain(url: str) -> str:
    """As psycopg and psql take it."""
    return database_address(url).set(drivername="postgresql").render_as_string(hide_password=False)


def test_a_question_that_fails_says_what_psql_said(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.sql").write_text("SELECT nothing")
    with pytest.raises(questions.QuestionFailedError, match=r'wrong\.sql.*column "nothing" does not exist'):
        questions._ask(plain(database_url), tmp_path / "wrong.sql")


@pytest.mark.parametrize(("measured", "is_met"), [(1_499.0, False), (1_500.0, True)])
def test_a_target_is_met_or_missed(measured: float, is_met: bool) -> None:
    assert [verdict.is_met for verdict in verdicts({"rows_per_second": measured})] == [is_met]
