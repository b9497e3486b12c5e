"""`slipstream metrics`: what counts is declared, shown and dropped, and holds for what was posted before."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.errors import LedgerError
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.rewards.reading import trajectory_rewards
from slipstream.cli import app
from tests.ledger.calls import a_call


@pytest.fixture
def run(database_url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="b")
    return CliRunner()


def test_a_declared_metric_counts_from_then_on_and_before(run: CliRunner, engine: Engine) -> None:
    """4 stars of 1 to 5 are 0.5 of -1 to 1; with the reward 0, weight 3 to 1: (3 * 0.5 + 0) / 4 = 0.375."""
    call = a_call(external_id="run")
    with engine.begin() as connection:
        record_calls(connection, [call])
        stars = post_reward(connection, "default", RewardPost("run", "stars", 4.0))
        post_reward(connection, "default", RewardPost("run", value=0.0))
    assert (stars.not_counted_reason, "slipstream metrics declare" in str(stars.note)) == (
        "other_metric",
        True,
    )
    said = run.invoke(
        app,
        [
            "metrics",
            "declare",
            "default/default",
            "stars",
            "--smallest",
            "1",
            "--largest",
            "5",
            "--weight",
            "3",
        ],
    )
    assert said.stdout == "default/default: stars counts from 1 to 5, higher is better, weight 3.\n"
    id_ = call.attribution.trajectory_id
    with engine.begin() as connection:
        assert trajectory_rewards(connection, [id_]) == {id_: 0.375}
    assert run.invoke(app, ["metrics", "combine", "default", "min"]).exit_code == 0
    with engine.begin() as connection:
        assert trajectory_rewards(connection, [id_]) == {id_: 0.0}
    assert "is not declared any more" in run.invoke(app, ["metrics", "drop", "default", "stars"]).stdout
    with engine.begin() as connection:
        assert trajectory_rewards(connection, [id_]) == {id_: 0.0}
        assert (
            post_reward(connection, "default", RewardPost("run", "stars", 99.0)).not_counted_reason
            is not None
        )


def test_what_counts_is_listed_the_two_built_in_ones_too(run: CliRunner) -> None:
    run.invoke(app, ["metrics", "declare", "default", "latency", "--largest", "30", "--better", "lower"])
    found = json.loads(run.invoke(app, ["metrics", "list", "--json"]).stdout)
    assert [
        (one["metric"], one["smallest"], one["largest"], one["direction"], one["is_declared"])
        for one in found
    ] == [
        ("comparison", 0.0, 1.0, "higher", False),
        ("latency", 0.0, 30.0, "lower", True),
        ("reward", -1.0, 1.0, "higher", False),
    ]
    assert "0 to 30" in run.invoke(app, ["metrics", "list"]).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["declare", "nobody", "stars"],
        ["declare", "default", "stars", "--smallest", "5", "--largest", "1"],
        ["declare", "default", "stars", "--largest", "inf"],
        ["declare", "default", "stars", "--smallest", "nan"],
        ["declare", "default", "stars", "--weight", "-1"],
        ["declare", "default", "stars", "--weight", "1e-9"],
        ["declare", "default", "comment"],
        ["declare", "default", "comparison", "--largest", "2"],
        ["declare", "default", "a\nb"],
        ["drop", "default", "stars"],
        ["combine", "acme/default", "min"],
    ],
)
def test_what_is_no_metric_is_refused(run: CliRunner, arguments: list[str]) -> None:
    done = run.invoke(app, ["metrics", *arguments])
    assert isinstance(done.exception, LedgerError)
    assert json.loads(run.invoke(app, ["metrics", "list", "--json"]).stdout)[0]["is_declared"] is False
