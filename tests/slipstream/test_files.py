"""`slipstream export`, `import` and `erase`, as they are typed."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from slipstream.cli import app
from tests.ledger.calls import rows
from tests.ledger.learned import fill

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


def test_answers_without_their_question_are_counted_once_at_the_end(run: CliRunner) -> None:
    message = {"choices": [{"message": {"role": "assistant", "content": "4"}}]}
    answers = [
        json.dumps({"custom_id": str(n), "response": {"status_code": 200, "body": message}}) for n in range(2)
    ]
    asked = json.dumps({"prompt": "2 + 2?", "completion": "4"})
    done = run.invoke(app, ["import", "-"], input="\n".join([*answers, asked]))
    assert (done.exit_code, done.stdout.count("2 answers came without their question")) == (0, 1)
    assert "custom_id" in done.stdout
    again = run.invoke(app, ["import", "-", "--json"], input="\n".join([*answers, asked]))
    assert json.loads(again.stdout)["num_unasked"] == 0


@pytest.mark.parametrize("arguments", [
    ["export", "a.csv"], ["export", "/nowhere/a.jsonl"], ["export", "-", "--format", "parquet"],
    ["export", "a.jsonl", "--since", "yesterday"], ["export", "a.jsonl", "--group", "unknown"],
    ["import", "missing.jsonl"], ["erase"], ["erase", "--user", ""], ["erase", "--user", "u", "--trajectory", "t"],
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
    assert "SLIPSTREAM_SPOOL is not known" in told
    again = json.loads(run.invoke(app, ["erase", "--trajectory", str(id_), "--json"]).stdout)
    assert (again["num_exchanges"], again["spool"]) == (1, None)


@pytest.mark.parametrize(
    ("since", "number"), [("7d", NUM_ROWS), ("2020-01-01", NUM_ROWS), ("2200-01-01T00:00:00Z", 0)]
)
def test_times_may_be_said_as_people_say_them(run: CliRunner, since: str, number: int) -> None:
    done = run.invoke(app, ["export", "a.jsonl", "--since", since, "--json"])
    assert json.loads(done.stdout)["num_exchanges"] == number
