"""`slipstream config`: each value in force, where it came from, and where the running worker has another."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.workers import worker_started
from slipstream.cli import app
from slipstream.errors import SlipstreamError, UsageError
from slipstream.local.home import process_mark, write_private

FILE = """step_groups = 3
[policies.support]
lora_rank = 16   # larger
[policies.sales]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "slipstream.toml"
    path.write_text(FILE)
    monkeypatch.setenv("SLIPSTREAM_CONFIG", str(path))
    return path


def found(run: CliRunner, *arguments: str) -> dict[str, dict[str, Any]]:
    answer = run.invoke(app, ["config", "--json", *arguments])
    assert answer.exit_code == 0, answer.output
    return {row["setting"]: row for row in json.loads(answer.stdout)}


def test_each_value_says_where_it_comes_from(
    run: CliRunner, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTREAM_SEED", "7")
    monkeypatch.setenv("SLIPSTREAM_SCORER_KEY_FILE", "/run/secrets/scorer")
    monkeypatch.setenv("SLIPSTREAM_JUDGE_API_KEY", "hunter2")
    stack = {"supervisor": process_mark(os.getpid()), "environment": {"SLIPSTREAM_LORA_RANK": "32"}}
    write_private(tmp_path / "run.json", stack)
    rows = found(run)
    told = {name: (row["value"], row["origin"]) for name, row in rows.items()}
    assert told["SLIPSTREAM_SEED"] == ("7", "environment")
    assert told["SLIPSTREAM_SCORER_KEY"] == ("***", "file /run/secrets/scorer")
    assert told["SLIPSTREAM_JUDGE_API_KEY"] == ("***", "environment")
    assert told["SLIPSTREAM_LORA_RANK"] == ("32", "stack")
    assert told["SLIPSTREAM_STEP_GROUPS"] == ("3", "slipstream.toml line 1")
    assert told["SLIPSTREAM_POLICIES"] == ("support, sales", "slipstream.toml line 2")
    assert told["SLIPSTREAM_KL"] == ("0.0", "default")


def test_what_holds_for_a_policy_is_its_own_table_first(run: CliRunner, file: Path) -> None:
    rows = found(run, "--policy", "support")
    assert (rows["SLIPSTREAM_LORA_RANK"]["value"], rows["SLIPSTREAM_LORA_RANK"]["origin"]) == (
        "16",
        "slipstream.toml line 3, [policies.support]",
    )
    assert rows["SLIPSTREAM_STEP_GROUPS"]["origin"] == "slipstream.toml line 1"
    assert "DATABASE_URL" not in rows
    assert found(run, "--policy", "sales")["SLIPSTREAM_LORA_RANK"]["origin"] == "default"


def test_a_policy_that_nobody_named_is_refused_with_those_that_there_are(run: CliRunner, file: Path) -> None:
    answer = run.invoke(app, ["config", "--policy", "suport"])
    assert isinstance(answer.exception, UsageError)
    assert "there are default, support, sales" in str(answer.exception)


def test_where_the_worker_runs_with_another_value_it_is_shown(
    run: CliRunner, file: Path, engine: Engine
) -> None:
    """It was started before the file was changed."""
    with engine.begin() as connection:
        for policy, rank in (("default", 8), ("support", 8)):
            settings = {"lora_rank": rank, "step_groups": 3, "learning_rate": 0.001, "probe_tolerance": None}
            worker_started(connection, policy=policy, base_model="base", owner="it", settings=settings)
    differing = {name for name, row in found(run, "--policy", "support").items() if row["worker"]}
    assert differing == {"SLIPSTREAM_LORA_RANK"}
    assert {name for name, row in found(run).items() if row["worker"]} == set()
    answer = run.invoke(app, ["config", "--policy", "support"])
    assert "restart it" in answer.stderr
    assert "restart it" not in run.invoke(app, ["config"]).stderr


def test_memory_that_the_worker_found_by_itself_is_no_other_value(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        settings = {"memory_mib": 4096, "sample_max_tokens": 512}
        worker_started(connection, policy="default", base_model="base", owner="it", settings=settings)
    differing = {name for name, row in found(run).items() if row["worker"]}
    assert differing == {"SLIPSTREAM_SAMPLE_MAX_TOKENS"}


def test_without_a_ledger_the_settings_are_shown_all_the_same(
    run: CliRunner, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    answer = run.invoke(app, ["config"])
    assert answer.exit_code == 0
    assert "is not known" in answer.stderr
    assert "SLIPSTREAM_STEP_GROUPS" in answer.stdout


def test_what_is_wrong_in_the_file_is_told_after_the_values(run: CliRunner, file: Path) -> None:
    file.write_text(FILE + "lora_rnak = 8\n")
    answer = run.invoke(app, ["config", "--json"])
    assert isinstance(answer.exception, SlipstreamError)
    assert "line 5, [policies.sales]: lora_rnak is no setting: did you mean lora_rank?" in str(
        answer.exception
    )
    assert json.loads(answer.stdout)
