"""`slipstream retention`: said in days, shown, tried dry, carried out."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from typer.testing import CliRunner

from ledger import upkeep
from ledger.errors import LedgerError
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.upkeep import Postponed
from slipstream.cli import app
from slipstream.errors import UsageError
from tests.ledger.retained import then


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    return CliRunner()


def test_days_are_said_shown_and_taken_back(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="b")
    assert "forever" in run.invoke(app, ["retention", "show"]).stdout
    assert (
        "project default: months of rows are kept for 90 days"
        in run.invoke(app, ["retention", "set", "90"]).stdout
    )
    assert run.invoke(app, ["retention", "set", "30", "--policy", "default"]).exit_code == 0
    shown = run.invoke(app, ["retention", "show", "--json"]).stdout
    assert json.loads(shown) == [{"project": "default", "policy": "default", "days": 30}]
    done = run.invoke(app, ["retention", "set", "forever", "--policy", "default"])
    assert "policy default of project default: as its project says" in done.stdout
    assert "90" in run.invoke(app, ["retention", "show"]).stdout


def test_what_is_over_is_planned_and_then_removed(run: CliRunner, engine: Engine) -> None:
    """A row of ten months ago, which waits in DEFAULT: it gets its month, which then goes."""
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="b")
        record_calls(connection, [then(datetime.now(UTC) - timedelta(days=300))])
    run.invoke(app, ["retention", "set", "30"])
    assert run.invoke(app, ["retention", "apply", "--dry-run"]).exit_code == 0
    done = json.loads(run.invoke(app, ["retention", "apply", "--json"]).stdout)
    assert [(one["table"], one["num_rows"], one["is_dropped"]) for one in done] == [
        ("exchanges", 1, True),
        ("trajectories", 1, True),
    ]
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT sum(num_rows) FROM removals")) == 2


def test_what_is_left_to_the_next_run_is_said_beside_the_json(
    run: CliRunner, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="b")
    left = Postponed(datetime(2026, 1, 1, tzinfo=UTC), "a table is in use")
    monkeypatch.setattr(upkeep, "apply_retention", lambda *_, **__: ([], [left]))
    done = run.invoke(app, ["retention", "apply", "--json"])
    assert json.loads(done.stdout) == []
    assert "2026-01 is left to the next run: a table is in use." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["soon"], UsageError),
        (["-5"], SystemExit),
        (["0"], LedgerError),
        (["36501"], UsageError),
        (["99999999999"], UsageError),
        (["9", "--project", "nobody"], LedgerError),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(
    run: CliRunner, arguments: list[str], kind: type[BaseException]
) -> None:
    done = run.invoke(app, ["retention", "set", *arguments])
    assert isinstance(done.exception, kind)
