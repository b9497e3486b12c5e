"""`slipstream audit`: a table for people, JSON for programs, and an exit code for both."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.audit.call_numbers import Spooled
from ledger.audit.capture import Report
from ledger.audit.rejected import set_aside
from ledger.recording_session import RecordingSession
from slipstream.cli import app
from slipstream.errors import UsageError
from tests.ledger.calls import a_call, a_policy, later


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("SLIPSTREAM_SPOOL", str(tmp_path))
    return CliRunner()


def commit(engine: Engine, root: Path, *numbers: int) -> None:
    """Rows of process 1-a, which has ended."""
    with engine.begin() as connection:
        a_policy(connection)
    session = RecordingSession(engine)
    spooled = [Spooled(a_call(call_id=later(0.1 * number)), number) for number in numbers]
    report = Report("1-a", root).commit(spooled).question(is_ended=True)
    session.record([record for record, _ in spooled], report)
    session.rest()


def test_a_whole_ledger_says_so_and_ends_with_0(run: CliRunner, engine: Engine, tmp_path: Path) -> None:
    assert "No accepted call is lost." in run.invoke(app, ["audit"]).stdout
    commit(engine, tmp_path, 1, 2, 3)
    done = run.invoke(app, ["audit"])
    assert done.exit_code == 0, done.output
    assert "No accepted call is lost." in done.stdout
    header, row = done.stdout.splitlines()[:2]
    assert dict(zip(header.split(), row.split(), strict=True))["committed"] == "3"


def test_a_hole_is_listed_and_ends_with_1(run: CliRunner, engine: Engine, tmp_path: Path) -> None:
    commit(engine, tmp_path, 1, 2, 6)
    done = run.invoke(app, ["audit"])
    assert done.exit_code == 1
    assert "calls 3 to 5" in done.stdout
    told = json.loads(run.invoke(app, ["audit", "--json"]).stdout)
    assert (told["is_whole"], told["accepted"], told["committed"], told["lost"]) == (False, 6, 3, 3)
    assert [(gap["process"], gap["first"], gap["last"]) for gap in told["gaps"]] == [("1-a", 3, 5)]
    assert told["rows"][0]["rows"] == 3


def test_rejected_records_are_a_gap_until_they_are_replayed(
    run: CliRunner, engine: Engine, tmp_path: Path
) -> None:
    commit(engine, tmp_path, 1)
    path = set_aside(tmp_path, "1-a", Spooled(a_call(call_id=later(0.2)), 2), ValueError())
    done = run.invoke(app, ["audit"])
    assert done.exit_code == 1
    assert path.name in done.stdout
    done = run.invoke(app, ["audit", "--replay-rejected"])
    assert done.exit_code == 0, done.output
    assert "1 committed, 0 refused" in done.stdout
    assert not path.exists()


def test_without_a_database_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["audit"])
    assert done.exit_code != 0
    assert "DATABASE_URL" in str(done.exception)


def test_a_spool_that_is_not_there_is_no_proof(run: CliRunner, tmp_path: Path) -> None:
    done = run.invoke(app, ["audit", "--spool", str(tmp_path / "mistyped")])
    assert isinstance(done.exception, UsageError)
    assert "SLIPSTREAM_SPOOL" in str(done.exception)
