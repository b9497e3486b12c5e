"""`slipstream --home DIR COMMAND`: every command can look into another home."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from slipstream.cli import app


@pytest.mark.parametrize("command", [["psql", "-c", "SELECT 1"], ["status"], ["versions"]])
def test_the_home_is_named_before_the_command(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("SLIPSTREAM_HOME", "elsewhere")
    found = CliRunner().invoke(app, ["--home", str(tmp_path), *command])
    assert found.exit_code == 1
    assert str(tmp_path) in str(found.exception)


def test_psql_explains_itself_without_a_database() -> None:
    found = CliRunner().invoke(app, ["psql", "--help"])
    assert found.exit_code == 0
    assert "its arguments follow" in found.output
