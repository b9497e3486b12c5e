"""Each invariant of docs/architecture.md is named by at least one test, so that a broken one says its name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INVARIANTS = re.findall(
    r"^\| (I\d+) \|", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE
)


def test_there_are_ten() -> None:
    assert [f"I{number}" for number in range(1, 11)] == INVARIANTS


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_an_invariant_is_named_by_a_test(invariant: str) -> None:
    named = re.compile(rf'"""{invariant}\b|def test_{invariant.lower()}_')
    tests = [path for path in ROOT.glob("tests/**/test_*.py") if path != Path(__file__)]
    assert [path for path in tests if named.search(path.read_text(encoding="utf-8"))] != []
