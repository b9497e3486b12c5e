"""`slipstream export`, `import` and `erase`, as they are typed."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.audit.call_numbers import Spooled
from ledger.audit.rejected import set_aside
from ledger.policies import ensure_policy
from slipstream.cli import app
from tests.ledger.calls import rows
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


def test_a_batch_gets_its_questions_from_its_input_file(run: CliRunner, engine: Engine) -> None:
    asked = [{"role": "user", "content": "2 + 2?"}]
    body = {"choices": [{"message": {"role": "assistant", "content": "four"}}]}
    request = {"custom_id": "7", "method": "POST", "body": {"model": "m", "messages": asked}}
    Path("input.jsonl").write_text(json.dumps(request))
    answers = [{"custom_id": id_, "response": {"status_code": 200, "body": body}} for id_ in ("7", "8")]
    done = run.invoke(
        app, ["import", "-", "--requests", "input.jsonl"], input="\n".join(map(json.dumps, answers))
    )
    assert (done.exit_code, done.stdout.count("1 answers came without their question")) == (0, 1)
    with engine.connect() as connection:
        found = rows(
            connection, "SELECT messages FROM exchanges WHERE completion_text = 'four' ORDER BY messages"
        )
    assert found == [(asked,), (None,)]
    missing = run.invoke(app, ["import", "-", "--requests", "no.jsonl"], input="")
    assert "no.jsonl: No such file" in str(missing.exception)


def test_a_policy_that_rows_cannot_change_to_is_said_and_not_made(run: CliRunner, engine: Engine) -> None:
    run.invoke(app, ["export", "a.jsonl"])
    done = run.invoke(app, ["import", "a.jsonl", "--policy", "other"])
    assert "0 exchanges were there already" in done.stdout
    assert f"{NUM_ROWS} exchanges are here under another policy and stay there" in done.stdout
    with engine.begin() as connection:
        [(name, base_model)] = rows(connection, "SELECT name, base_model FROM policies")
        assert name == "default"
        ensure_policy(connection, name="other", base_model=base_model)
    done = run.invoke(app, ["import", "a.jsonl", "--policy", "other"])
    assert f"{NUM_ROWS} exchanges are here under another policy and stay there" in done.stdout
    logs = json.dumps({"prompt": "q", "completion": "a"})
    run.invoke(app, ["import", "-"], input=logs)
    done = run.invoke(app, ["import", "-", "--policy", "other"], input=logs)
    assert "1 exchanges are here under another policy" in done.stdout


def test_of_many_bad_lines_twenty_are_told_and_json_has_them_all(run: CliRunner) -> None:
    done = run.invoke(app, ["import", "-"], input="no\n" * 25)
    assert done.stdout.count("not JSON") == 20
    assert "and 5 more bad lines" in done.stdout
    assert "line 1: not JSON: Expecting value, at character 1\n" in done.stdout
    bad = json.loads(run.invoke(app, ["import", "-", "--json"], input="no\n" * 125).stdout)["bad_lines"]
    assert len(bad) == 125


def test_what_a_line_is_not_is_said_of_the_file(run: CliRunner) -> None:
    later = json.dumps({"export_version": 2})
    done = run.invoke(app, ["import", "-"], input=b"\n" + later.encode() + b'\n{"a": "\xff"}\n')
    assert "line 2: its export_version is 2, and this Slipstream reads up to 1: update it" in done.stdout
    assert "line 3: not UTF-8: byte 8 is 0xff" in done.stdout


def test_a_line_that_stands_in_the_file_twice_is_counted_the_first_time(run: CliRunner) -> None:
    logs = json.dumps({"prompt": "q", "completion": "a"})
    report = json.loads(run.invoke(app, ["import", "-", "--json"], input=f"{logs}\n{logs}\n").stdout)
    assert (report["num_new"], report["num_existing"]) == (1, 1)


def test_a_project_that_is_missing_is_said_with_how_to_make_it(run: CliRunner) -> None:
    logs = json.dumps({"prompt": "q", "completion": "a"})
    done = run.invoke(app, ["import", "-", "--project", "acme"], input=logs)
    assert "`slipstream keys create --project acme` makes it" in str(done.exception)


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
    assert json.loads(done.stdout)["spool"] == {"num_frames": 1, "num_waiting": 0}
    assert MARK.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("since", "number"), [("7d", NUM_ROWS), ("2020-01-01", NUM_ROWS), ("2200-01-01T00:00:00Z", 0)]
)
def test_times_may_be_said_as_people_say_them(run: CliRunner, since: str, number: int) -> None:
    done = run.invoke(app, ["export", "a.jsonl", "--since", since, "--json"])
    assert json.loads(done.stdout)["num_exchanges"] == number
