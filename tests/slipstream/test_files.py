"""`slipstream export` and `import`, as they are typed."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.schema import EXPECTED_REVISION
from slipstream.cli import app
from tests.ledger.calls import rows

NUM_ROWS = 12


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_a_file_by_its_ending_and_back(run: CliRunner, name: str) -> None:
    assert f"{NUM_ROWS} exchanges in {name}" in run.invoke(app, ["export", name]).stdout
    done = run.invoke(app, ["import", name])
    assert done.exit_code == 0, done.output
    assert "Imported 0 exchanges and 0 judgements from 12 lines" in done.stdout
    assert f"{NUM_ROWS} exchanges were there already" in done.stdout


@pytest.mark.parametrize(("options", "said"), [
    (["--project", "defualt"], "there is no project 'defualt': there is default"),
    (["--policy", "defualt"], "there is no policy 'defualt': there is default"),
    (["--version", "9"], "there is no version 9: there is 1, 0"),
    (["--since", "2026-11-30", "--until", "2026-11-29"], "is not before --until 2026-11-29"),
])  # fmt: skip
def test_a_misspelt_filter_is_told_and_no_file_is_touched(
    run: CliRunner, options: list[str], said: str
) -> None:
    Path("a.jsonl").write_text("kept")
    done = run.invoke(app, ["export", "a.jsonl", "--force", *options])
    assert said in str(done.exception)
    assert Path("a.jsonl").read_text() == "kept"


def test_a_file_that_exists_is_replaced_only_by_force(run: CliRunner) -> None:
    Path("a.jsonl").write_text("kept")
    assert "say --force" in str(run.invoke(app, ["export", "a.jsonl"]).exception)
    assert Path("a.jsonl").read_text() == "kept"
    assert run.invoke(app, ["export", "a.jsonl", "--force"]).exit_code == 0
    assert len(Path("a.jsonl").read_text().splitlines()) == NUM_ROWS


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


def test_migrate_says_from_where_to_where(run: CliRunner) -> None:
    assert f"up to date ({EXPECTED_REVISION})" in run.invoke(app, ["migrate"]).stdout
