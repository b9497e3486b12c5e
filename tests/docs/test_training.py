"""docs/training.md lists every figure of a step with its unit and meaning, and no other."""

import re
from pathlib import Path

from ledger.figures import BREAKDOWNS, FACTS, FIGURES

TRAINING = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """The cells of the rows below a line that begins so."""
    section = TRAINING.split(heading, 1)[1].partition("\n\n")[0]
    rows = re.findall(r"^\| `.*\|$", section, re.MULTILINE)
    return [[cell.strip(" `") for cell in row.strip("|").split(" | ")] for row in rows]


def test_every_figure_is_documented_with_its_unit_and_meaning() -> None:
    documented = [(name, unit, meaning) for name, unit, meaning, _ in table("| figure |")]
    assert documented == [(figure.name, str(figure.unit), figure.meaning) for figure in FIGURES]


def test_every_breakdown_and_every_fact_is_documented() -> None:
    assert dict(table("| breakdown |")) == BREAKDOWNS
    assert dict(table("| fact |")) == FACTS
