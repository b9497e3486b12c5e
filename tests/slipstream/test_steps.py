"""`slipstream steps`: the last steps as a table and as JSON, what looks wrong, and a picture."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from typer.testing import CliRunner

from ledger.errors import LedgerError
from ledger.policies import ensure_policy
from slipstream.cli import app
from slipstream.errors import UsageError
from tests.ledger.steps import START, add_step

PNG = b"\x89PNG\r\n\x1a\n"


def add_steps(
    engine: Engine, num: int, project: str = "default", state: str = "published", **metrics: Any
) -> None:
    with engine.begin() as connection:
        policy = ensure_policy(connection, name="default", base_model="base", project=project)
        for version in range(2, num + 2):
            figures = {
                "reward_mean": 0.1 * version,
                "reward_spread": 0.2,
                "entropy": 1.0,
                "loss": 0.0,
                "grad_norm": 0.5,
            }
            ended = {
                "finished_at": START + timedelta(hours=version, seconds=42),
                "reason": "None can teach.",
                "settings": {"grad_clip": 1.0},
            }
            add_step(connection, policy, version, state, metrics=figures | metrics, **ended)


def test_the_last_steps_are_a_table_with_what_shows_that_they_learn(run: CliRunner, engine: Engine) -> None:
    """B113: beside a loss of 0 stand reward, gradient norm and version."""
    add_steps(engine, 3)
    shown = run.invoke(app, ["steps", "--last", "2"]).stdout.splitlines()
    assert shown[0] == "policy default"
    head, *rows = (line.split() for line in shown[1:4])
    assert {"version", "reward", "grad", "loss", "entropy"} <= set(head)
    assert [row[:5] for row in rows] == [
        ["3", "published", "11-01", "03:00", "0.3"],
        ["4", "published", "11-01", "04:00", "0.4"],
    ]
    assert not any(line.startswith("!") for line in shown)


def test_what_looks_wrong_is_said_below(run: CliRunner, engine: Engine) -> None:
    """B110: a policy that learns nothing looks like it."""
    add_steps(engine, 3, state="skipped")
    shown = run.invoke(app, ["steps"]).stdout
    assert "! The last 3 steps learned nothing: None can teach." in shown


def test_a_program_gets_every_figure_and_the_signs(run: CliRunner, engine: Engine) -> None:
    add_steps(engine, 1, project="acme", tokens_dropped={"unscored": 3})
    (found,) = json.loads(run.invoke(app, ["steps", "--policy", "acme@default", "--json"]).stdout)
    assert (found["policy"], found["signs"]) == ("acme@default", [])
    (step,) = found["steps"]
    assert (step["version"], step["entropy"], step["ratio_max"], step["seconds_total"]) == (
        2,
        1.0,
        None,
        42.0,
    )
    assert step["drops"] == {"unscored": 3}
    ours = json.loads(run.invoke(app, ["steps", "--policy", "default", "--json"]).stdout)
    assert [one["policy"] for one in ours] == ["default"]


def test_without_steps_it_says_where_to_look(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE training_steps CASCADE"))
    assert "slipstream status" in run.invoke(app, ["steps"]).stdout


def test_a_picture_is_drawn_of_one_policy(run: CliRunner, engine: Engine, tmp_path: Path) -> None:
    add_steps(engine, 3)
    path = tmp_path / "learning.png"
    result = run.invoke(app, ["steps", "--picture", str(path)])
    assert result.exit_code == 0
    assert path.read_bytes().startswith(PNG)


def test_a_picture_of_several_policies_asks_which(run: CliRunner, engine: Engine, tmp_path: Path) -> None:
    add_steps(engine, 1)
    add_steps(engine, 1, project="acme")
    result = run.invoke(app, ["steps", "--picture", str(tmp_path / "learning.png")])
    assert isinstance(result.exception, UsageError)
    assert "acme@default, default" in str(result.exception)


def test_a_picture_without_matplotlib_says_what_to_install(
    run: CliRunner, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_steps(engine, 1)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    result = run.invoke(app, ["steps", "--picture", str(tmp_path / "learning.png")])
    assert isinstance(result.exception, UsageError)
    assert "pip install 'slipstream[demo]'" in str(result.exception)


def test_a_database_that_is_away_is_told_in_a_sentence(
    run: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/gone")
    assert isinstance(run.invoke(app, ["steps"]).exception, LedgerError)
