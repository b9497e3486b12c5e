"""`slipstream erase`, as it is typed."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.audit.call_numbers import Spooled
from ledger.audit.rejected import set_aside
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from slipstream.cli import app
from tests.ledger.calls import a_call, rows
from tests.ledger.test_erasure import MARK, a_marked_call


def test_erase_tells_what_it_cannot_undo(run: CliRunner, engine: Engine) -> None:
    run.invoke(app, ["export", "a.jsonl"])
    with engine.connect() as connection:
        [(id_,)] = rows(connection, "SELECT trajectory_id FROM step_samples WHERE is_used ORDER BY 1 LIMIT 1")
    told = run.invoke(app, ["erase", "--trajectory", str(id_)]).stdout
    assert "Erased: 1 exchanges, 1 trajectories, 1 judgements" in told
    assert "default@1 learned from 1 of them (step published), and is live" in told
    assert "a.jsonl" in told
    assert "No spool lies here (SLIPSTREAM_SPOOL)" in told
    again = json.loads(run.invoke(app, ["erase", "--trajectory", str(id_), "--json"]).stdout)
    assert (again["num_exchanges"], again["spool"]) == (1, None)


def test_erase_empties_the_spool_of_the_home_where_no_other_is_said(
    run: CliRunner, engine: Engine, tmp_path: Path
) -> None:
    """It is where a proxy without SLIPSTREAM_SPOOL has it."""
    call = a_marked_call()
    (tmp_path / "spool").mkdir()
    path = set_aside(tmp_path / "spool", "1-a", Spooled(call, 1), ValueError())
    assert MARK.encode() in path.read_bytes()
    done = run.invoke(app, ["erase", "--trajectory", str(call.attribution.trajectory_id), "--json"])
    assert json.loads(done.stdout)["spool"] == {
        "num_frames": 1,
        "num_waiting": 0,
        "num_calls": 0,
        "num_rejected": 1,
    }
    assert MARK.encode() not in path.read_bytes()


def test_erase_counts_what_lay_in_the_spool(run: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path.cwd() / "spool"
    root.mkdir()
    monkeypatch.setenv("SLIPSTREAM_SPOOL", str(root))
    set_aside(root, "1-a", Spooled(a_call(request={"user": "anna"}), 2), ValueError())
    assert "0 calls, 1 refused record." in run.invoke(app, ["erase", "--user", "anna"]).stdout


def test_erase_says_where_else_the_user_has_rows(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        for project in ("acme", "default"):
            ensure_policy(connection, name="default", base_model="base", project=project)
            record_calls(connection, [a_call(project=project, request={"user": "anna"})])
    assert "--project acme" in run.invoke(app, ["erase", "--user", "anna"]).stderr
    assert "--project" not in run.invoke(app, ["erase", "--user", "anna", "--project", "acme"]).stderr


def test_erase_takes_one_subject(run: CliRunner) -> None:
    assert "only one of them" in str(run.invoke(app, ["erase", "--user", "a", "--trajectory", "b"]).exception)
