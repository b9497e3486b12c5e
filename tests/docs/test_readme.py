"""The README's queries are the files that it names, which tests/ledger/test_questions.py runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PRINTED = dict(re.findall(r"`(examples/sql/[\w-]+\.sql)`[^\n]*\n+```sql\n(.*?)```", README, re.DOTALL))
EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("examples/sql/*.sql"))


def test_the_readme_prints_five_of_the_examples() -> None:
    assert len(PRINTED) == 5
    assert PRINTED.keys() <= set(EXAMPLES)


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_query_is_its_file(name: str) -> None:
    assert PRINTED[name].strip() == (ROOT / name).read_text(encoding="utf-8").strip()
