"""`slipstream export`, `import` and `erase`, as they are typed."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.audit.call_numbers import Spooled
from ledger.audit.rejected import set_aside
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.schema import EXPECTED_REVISION
from slipstream.cli import app
from tests.ledger.calls import a_call, rows
from tests.ledger.learned import fill
from tests.ledger.test_erasure import MARK, a_marked_call

NUM_ROWS = 12


@pytest.fixture
def run(database_url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with engine.begin() as connection:
        fill(connection)
    return CliRunner()


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_a_file_by_its_ending_and_back(run: CliRunner, name: str) -> None:
    assert f"{NUM_ROWS} exchanges in {name}" in run.invoke(app, ["export", name]).stdout
    done = run.invoke(app, ["import", name])
    assert done.exit_code == 0, done.output
    assert "Imported 0 exchanges and 0 judgements from 12 lines" in done.stdout
    assert f"{NUM_ROWS} exchanges were there already" in done.stdout


def test_json_for_programs(run: CliRunner) -> None:
    done = json.loads(
        run.invoke(app, ["export", "a.jsonl", "--json", "--version", "1", "--trainable"]).stdout
    )
    assert (done["num_exchanges"], done["format"]) == (8, "jsonl")
    report = json.loads(
        run.invoke(app, ["import", "a.jsonl", "--json", "--dry-run", "--project", "acme"]).stdout
    )
    assert (report["num_new"], report["num_bad"], report["is_dry_run"]) == (8, 0, True)


def test_the_standard_output_holds_rows_and_nothing_else(run: CliRunner) -> None:
    lines = run.invoke(app, ["export", "-"]).stdout_bytes.splitlines()
    assert [json.loads(line)["export_version"] for line in lines] == [1] * NUM_ROWS


def test_the_standard_input_is_a_file_like_any_other(run: CliRunner) -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})
    done = run.invoke(app, ["import", "-"], input=f"{line}\nnonsense\n")
    assert "Imported 1 exchanges" in done.stdout
    assert "line 2: not JSON" in done.stdout
    assert done.exit_code == 1


def test_an_import_of_rows_that_retention_takes_at_once_says_so(run: CliRunner) -> None:
    run.invoke(app, ["retention", "set", "30"])
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    old = json.dumps({"messages": said, "created": 1_600_000_000})
    new = json.dumps({"messages": [{"role": "user", "content": "new"}, said[1]]})
    done = run.invoke(app, ["import", "-"], input=f"{old}\n{new}\n")
    assert "1 of them are older than their policy keeps rows" in done.stdout
    assert "1 of them" not in run.invoke(app, ["import", "-"], input=f"{old}\n").stdout


@pytest.mark.parametrize("arguments", [
    ["export", "a.csv"], ["export", "/nowhere/a.jsonl"], ["export", "-", "--format", "parquet"],
    ["export", "a.jsonl", "--since", "yesterday"], ["export", "a.jsonl", "--group", "unknown"],
    ["export", "a.jsonl", "--since", "9999999d"], ["export", "a.jsonl", "--until", "99999999999999999999h"],
    ["import", "missing.jsonl"], ["import", "a.jsonl", "--format", "csv"], ["erase"], ["erase", "--user", ""], ["erase", "--user", "u", "--trajectory", "t"],
    ["erase", "--user", "u", "--project", "nowhere"],
])  # fmt: skip
def test_what_cannot_be_done_ends_in_a_sentence(run: CliRunner, arguments: list[str]) -> None:
    done = run.invoke(app, arguments)
    assert type(done.exception).__name__ in ("UsageError", "LedgerError", "SlipstreamError")
    assert not list(Path.cwd().glob("*.part"))


def test_a_file_that_is_no_parquet_says_so(run: CliRunner) -> None:
    Path("a.parquet").write_bytes(b"no")
    done = run.invoke(app, ["import", "a.parquet"])
    assert type(done.exception).__name__ in ("LedgerError", "SlipstreamError")


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


@pytest.mark.parametrize(
    ("since", "number"), [("7d", NUM_ROWS), ("2020-01-01", NUM_ROWS), ("2200-01-01T00:00:00Z", 0)]
)
def test_times_may_be_said_as_people_say_them(run: CliRunner, since: str, number: int) -> None:
    done = run.invoke(app, ["export", "a.jsonl", "--since", since, "--json"])
    assert json.loads(done.stdout)["num_exchanges"] == number


def test_an_export_that_wrote_nothing_is_not_listed(run: CliRunner, engine: Engine) -> None:
    run.invoke(app, ["export", "/nowhere/a.jsonl"])
    with engine.connect() as connection:
        assert rows(connection, "SELECT count(*) FROM exports") == [(0,)]


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


def test_migrate_says_from_where_to_where(run: CliRunner) -> None:
    assert f"up to date ({EXPECTED_REVISION})" in run.invoke(app, ["migrate"]).stdout
