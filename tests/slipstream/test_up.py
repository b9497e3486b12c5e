"""`slipstream up` on bad input: one sentence with the remedy, exit code 1, nothing left behind."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.local.home import Home, process_mark, write_private
from slipstream.local.recovery import marked


def slipstream(home: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "SLIPSTREAM_HOME": str(home), "SLIPSTREAM_PORT": "0", **variables}
    command = [sys.executable, "-m", "slipstream", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def assert_refused(result: "subprocess.CompletedProcess[str]", home: Path, *words: str) -> None:
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    assert marked(Home.at(home)) == []
    assert not (home / "run.json").exists()


def test_a_taken_port_names_the_port_and_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        result = slipstream(tmp_path, "up", "--port", port)
    assert_refused(result, tmp_path, f"Port {port} on 127.0.0.1 cannot be used", "--port")
    assert not (tmp_path / "postgres").exists()


def test_too_little_disk_is_said_before_anything_starts(tmp_path: Path) -> None:
    result = slipstream(tmp_path, "up", SLIPSTREAM_MIN_FREE_GIB="1000000")
    assert_refused(result, tmp_path, "GiB are free", "1000000.0 GiB are needed")


def test_a_directory_that_is_no_model_is_said_before_anything_starts(tmp_path: Path) -> None:
    result = slipstream(tmp_path, "up", "--model", "/no/such/model")
    assert_refused(result, tmp_path, "There is no model directory /no/such/model")


def test_a_wrong_setting_is_named_with_its_value_unless_that_is_a_key(tmp_path: Path) -> None:
    result = slipstream(tmp_path, "up", SLIPSTREAM_VLLM_THREADS="many", SLIPSTREAM_PORT="sk-hunter2")
    assert_refused(result, tmp_path, "SLIPSTREAM_VLLM_THREADS = many (environment)")
    assert "SLIPSTREAM_PORT = *** (environment)" in result.stderr
    assert "hunter2" not in result.stderr


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    result = slipstream(
        tmp_path, "up", DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/x", REDIS_URL="redis://127.0.0.1:1/0",
        SLIPSTREAM_UPSTREAM_URLS="http://127.0.0.1:1", SLIPSTREAM_BASE_MODEL="owner/name", SLIPSTREAM_START_SECONDS="2",
    )  # fmt: skip
    assert_refused(result, tmp_path, "postgres was not ready", "DATABASE_URL")
    assert "hunter2" not in result.stderr + result.stdout


def test_a_second_stack_in_one_home_is_refused(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    home.create()
    with home.locked():
        write_private(home / "run.json", {"supervisor": process_mark(os.getpid())})
        result = slipstream(tmp_path, "up")
    assert result.returncode == 1
    assert f"process {os.getpid()}" in result.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["down"], "No stack runs in"),
        (["status"], "DATABASE_URL is not known"),
        (["psql", "-c", "SELECT 1"], "DATABASE_URL is not known"),
        (["train"], "REDIS_URL is not known"),
        (["migrate"], "DATABASE_URL is not known"),
        (["proxy"], "SLIPSTREAM_UPSTREAM_URLS"),
        (["worker"], "REDIS_URL"),
    ],
)
def test_a_command_without_a_system_says_what_it_needs(
    tmp_path: Path, command: list[str], words: str
) -> None:
    assert_refused(slipstream(tmp_path, *command), tmp_path, words)


def test_a_reward_for_nobody_names_the_address(tmp_path: Path) -> None:
    result = slipstream(tmp_path, "reward", "abc", "1", SLIPSTREAM_URL="http://127.0.0.1:1")
    assert_refused(result, tmp_path, "No proxy answers at http://127.0.0.1:1/v1/trajectories/abc/reward")


def test_doctor_without_a_system_finds_nothing_wrong_and_says_what_is_missing(tmp_path: Path) -> None:
    import json

    result = slipstream(tmp_path, "doctor", "--json", SLIPSTREAM_PORT="1")
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    assert result.returncode == 0
    assert findings["python"]["level"] == "good"
    assert "slipstream up" in findings["database"]["remedy"]


def test_doctor_fails_where_a_named_server_does_not_answer(tmp_path: Path) -> None:
    result = slipstream(
        tmp_path, "doctor", DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/x", REDIS_URL="redis://127.0.0.1:1/0",
        SLIPSTREAM_UPSTREAM_URLS="http://127.0.0.1:1",
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stdout.count("wrong") == 3
    assert "hunter2" not in result.stdout


def test_doctor_says_when_the_schema_is_behind(tmp_path: Path, empty_database_url: str) -> None:
    result = slipstream(tmp_path, "doctor", DATABASE_URL=empty_database_url)
    assert result.returncode == 1
    assert "slipstream migrate" in result.stdout


def test_migrate_then_psql_reads_the_ledger(tmp_path: Path, empty_database_url: str) -> None:
    assert slipstream(tmp_path, "migrate", DATABASE_URL=empty_database_url).returncode == 0
    query = tmp_path / "query.sql"
    query.write_text("SELECT count(*) FROM exchanges;")
    result = slipstream(tmp_path, "psql", "-At", "-f", str(query), DATABASE_URL=empty_database_url)
    assert (result.returncode, result.stdout) == (0, "0\n")
    options = ("&" if "?" in empty_database_url else "?") + "connect_timeout=5&application_name=a%20b"
    result = slipstream(
        tmp_path, "psql", "-Atc", "SHOW application_name", DATABASE_URL=empty_database_url + options
    )
    assert (result.returncode, result.stdout) == (0, "a b\n"), result.stderr


def test_status_of_an_empty_ledger(tmp_path: Path, database_url: str) -> None:
    result = slipstream(tmp_path, "status", "--json", DATABASE_URL=database_url)
    assert result.returncode == 0, result.stderr
    assert '"exchanges": 0' in result.stdout
