"""`slipstream --home DIR COMMAND`: every command can look into another home, and says what its options are."""

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


@pytest.mark.parametrize(
    ("command", "default"),
    [
        (["reward"], "reward"), (["import"], "the rows' own; of chat logs: default"), (["keys", "create"], "infer, reward"),
        (["retention", "set"], "all that say nothing else"), (["up"], ".slipstream"), (["up"], "4000"),
    ],
)  # fmt: skip
def test_the_help_shows_defaults_that_are_none_in_code(
    command: list[str], default: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Square brackets in a help text are markup to Typer, which leaves them out."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    assert f"[default: ({default})]" in CliRunner().invoke(app, [*command, "--help"]).output
