"""No document points at a file or a heading that is not there, and every decision stands in the index."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("requirements/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_a_page_lead_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|mailto:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    to_pages = [(page.parent / path if path else page, anchor) for path, anchor in links]
    assert [link for link in to_pages if link[0].suffix == ".md" and link[1] not in anchors(link[0])] == []


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_decision_stands_in_the_index() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in DECISIONS.glob("0*.md")}
    assert set(re.findall(r"\]\((0[^)]+)\)", index)) == pages


def test_no_two_decisions_share_a_number() -> None:
    numbers = [page.name[:4] for page in DECISIONS.glob("0*.md")]
    assert len(numbers) == len(set(numbers))
