"""A home of a stack, and a command line beside a ledger that holds something; new for each test."""

from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from slipstream.local.home import Home
from tests.ledger.learned import fill


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.at(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def run(database_url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with engine.begin() as connection:
        fill(connection)
    return CliRunner()
