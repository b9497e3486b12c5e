"""`slipstream import` of lines that are no export: what it says of each."""

import json
from pathlib import Path

from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.policies import ensure_policy
from slipstream.cli import app
from tests.ledger.calls import rows

NUM_ROWS = 12


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
