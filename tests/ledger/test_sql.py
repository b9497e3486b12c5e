"""The README's queries, run by psql as a user runs them, and the documentation of the views."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from ledger.policies import adapter_name
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from tests.ledger.calls import a_call, a_policy
from tests.ledger.learned import fill
from tests.ledger.psql import psql

ROOT = Path(__file__).parents[2]
QUERIES = sorted((ROOT / "examples/sql").glob("*.sql"))


@pytest.fixture
def trained_call(connection: Connection) -> str:
    _, call = fill(connection)
    connection.commit()
    return str(call.attribution.trajectory_id)


@pytest.mark.parametrize("path", QUERIES, ids=[path.stem for path in QUERIES])
def test_each_query_runs_on_an_empty_ledger(database_url: str, path: Path) -> None:
    assert psql(database_url, path.name) == []


@pytest.mark.usefixtures("trained_call")
def test_reward_by_version_has_an_interval(database_url: str) -> None:
    """Version 0: 0, .25, .5, .75 -> mean .375, sd .3227, ±1.96 * .3227 / 2 = .316. Version 1: 1, 1, 1, 1, -1."""
    assert psql(database_url, "reward_by_version.sql") == [
        ["default", "default", "0", "4", "0.375", "0.059", "0.691"],
        ["default", "default", "1", "5", "0.600", "-0.184", "1.384"],
    ]


@pytest.mark.usefixtures("trained_call")
def test_best_and_worst_names_both_ends(database_url: str) -> None:
    found = psql(database_url, "best_and_worst.sql")
    assert [row[0] for row in found] == ["best"] * 5 + ["worst"] * 4
    assert (found[0][1], found[-1][1]) == ("1.000", "-1.000")
    assert found[-1][5:] == ["question 0", "hi"]


@pytest.mark.usefixtures("trained_call")
def test_tokens_per_day_counts_exchanges_and_tokens(database_url: str) -> None:
    """8 choices and a lone call of 3 prompt tokens, 3 turns of 3 (as the record says); 12 answers of 3 tokens."""
    assert psql(database_url, "tokens_per_day.sql") == [
        ["2026-11-30", "default", "default", "12", "36", "36"]
    ]


@pytest.mark.usefixtures("trained_call")
def test_groups_without_signal_says_why(database_url: str) -> None:
    assert psql(database_url, "groups_without_signal.sql") == [
        ["default", "default", "choices", "all alike", "1", "4", "1.000"],
        ["default", "default", "prompt", "unscored", "1", "1", ""],
    ]


def test_a_lone_score_may_teach_by_the_running_baseline(connection: Connection, database_url: str) -> None:
    """While its group is open it may train next; trained it did teach; skipped it did not."""
    a_policy(connection)
    call = a_call()
    record_calls(connection, [call])
    post_reward(connection, "default", RewardPost(str(call.call_id), value=1.0))
    one_member = [["default", "default", "prompt", "one member", "1", "1", "1.000"]]
    for state, num_next, silent in (("open", 1, []), ("trained", 0, []), ("skipped", 0, one_member)):
        connection.execute(text("UPDATE groups SET state = :state"), {"state": state})
        connection.commit()
        assert len(psql(database_url, "next_step.sql")) == num_next
        assert psql(database_url, "groups_without_signal.sql") == silent


@pytest.mark.parametrize("options", [{}, {"version": 1}])
def test_what_trained_a_version_lists_its_samples(
    database_url: str, trained_call: str, options: dict[str, int]
) -> None:
    found = psql(database_url, "trained_by_version.sql", **options)
    assert [row[8] for row in found] == ["0.375", "0.125", "-0.375"]
    assert found[2][3] == trained_call
    assert psql(database_url, "trained_by_version.sql", version=7) == []


def test_a_thumb_down_is_zero_false_or_below(connection: Connection, database_url: str) -> None:
    a_policy(connection)
    for value in (0, False, -0.5, 1, True, 0.5):
        call = a_call()
        call = replace(call, attribution=replace(call.attribution, end_user="anna"))
        record_calls(connection, [call])
        post_reward(connection, "default", RewardPost(str(call.call_id), value=float(value)))
    connection.commit()
    [row] = psql(database_url, "unhappy_users.sql")
    assert row[:6] == ["default", "default", "anna", "3", "6", "50.0"]


def test_texts_are_on_one_line_and_an_erased_one_says_so(
    connection: Connection, database_url: str, trained_call: str
) -> None:
    connection.execute(text("UPDATE exchanges SET completion_text = E'a\\n\\tb'"))
    connection.execute(text("UPDATE trajectories SET erased_at = now() WHERE id = :id"), {"id": trained_call})
    connection.commit()
    found = {row[4]: row[5:] for row in psql(database_url, "best_and_worst.sql")}
    assert found.pop(trained_call) == ["(erased)", "(erased)"]
    assert {row[1] for row in found.values()} == {"a b"}


@pytest.mark.usefixtures("trained_call")
def test_what_can_be_trained_is_named(database_url: str) -> None:
    assert [row[2] for row in psql(database_url, "untrainable.sql")] == ["trainable"]


def test_the_views_and_the_files_are_documented(connection: Connection) -> None:
    documented = (ROOT / "docs/sql.md").read_text()
    views = connection.execute(
        text("SELECT 'v1.' || viewname FROM pg_views WHERE schemaname = 'v1'")
    ).scalars()
    assert set(re.findall(r"^\| `(v1\.\w+)`", documented, re.MULTILINE)) == set(views)
    assert set(re.findall(r"examples/sql/(\w+\.sql)\)", documented)) == {path.name for path in QUERIES}


def test_views_agree_with_the_code(connection: Connection) -> None:
    policy, _ = fill(connection)
    live = connection.execute(text("SELECT model FROM v1.versions WHERE is_live")).scalars().all()
    assert live == [adapter_name(policy.name, 1)]
    steps = connection.execute(
        text("SELECT num_samples, num_used, num_completion_tokens FROM v1.steps")
    ).all()
    assert [tuple(row) for row in steps] == [(4, 3, 9)]
    assert connection.scalar(text("SELECT count(*) FROM v1.trajectories WHERE is_trained")) == 3
    assert connection.scalar(text("SELECT step_version FROM v1.groups WHERE state = 'trained'")) == 1
