"""A home of a stack, new for each test."""

from pathlib import Path

import pytest

from slipstream.local.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.at(tmp_path / "home")
    home.create()
    return home
