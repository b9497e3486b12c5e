"""Each invariant of docs/architecture.md is named by the tests that its row lists, so that a broken one says its name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (I\d+) \| .+ \| (.+) \|$", ARCHITECTURE, re.MULTILINE))
"""I4 -> the test modules that its row lists."""


def test_there_are_ten() -> None:
    assert list(ROWS) == [f"I{number}" for number in range(1, 11)]


@pytest.mark.parametrize("invariant", ROWS)
def test_each_listed_test_names_its_invariant(invariant: str) -> None:
    paths = [ROOT / "tests" / f"{name}.py" for name in ROWS[invariant].split(", ")]
    named = re.compile(rf"\b{invariant}\b|def test_{invariant.lower()}_")
    assert [str(path) for path in paths if not named.search(path.read_text(encoding="utf-8"))] == []
