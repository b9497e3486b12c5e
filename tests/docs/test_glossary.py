"""docs/glossary.md documents every word that a user meets in a column: the lists are compared, both ways."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from ledger import vocabulary

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
LISTS = {
    "How a call found its trajectory": [vocabulary.IdentifiedBy],
    "State of an exchange": [vocabulary.ExchangeStatus],
    "Groups: kind and state": [vocabulary.GroupKind, vocabulary.GroupState],
    "What a step learns from": [vocabulary.StepKind],
    "What a step of sft imitates": [vocabulary.SftSource],
    "Left out of a step of sft or dpo": [vocabulary.LeftOut],
    "Asked for": [vocabulary.RequestState],
    "State of a step": [vocabulary.StepState],
    "State of a version": [vocabulary.VersionState],
    "What was erased, and how far": [vocabulary.ErasureSubject, vocabulary.ErasureState],
    "What a key may do": [vocabulary.Scope],
    "Where a baseline came from": [vocabulary.BaselineKind],
    "Why something was not trained": [vocabulary.Reason],
    "What became of it": [vocabulary.Verdict, vocabulary.WaitsFor],
    "What an open group waits for": [vocabulary.GroupWaitsFor],
    "What the next step waits for": [vocabulary.StepWaitsFor],
    "How judgements make one reward": [vocabulary.Combination, vocabulary.Direction],
    "Why a reward event is not part of the reward": [vocabulary.NotCounted],
    "State of a judge run": [vocabulary.JudgeRunState],
    "State of a sibling run": [vocabulary.SiblingRunState, vocabulary.SiblingReason],
}


def documented(title: str) -> set[str]:
    """The values in the first column of the table below the heading that begins with `title`."""
    section = GLOSSARY.split(f"### {title}", 1)[1].split("\n### ", 1)[0]
    return set(re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE))


@pytest.mark.parametrize(("title", "lists"), LISTS.items())
def test_the_glossary_lists_exactly_the_values_of_the_vocabulary(
    title: str, lists: list[type[StrEnum]]
) -> None:
    assert documented(title) == {member.value for words in lists for member in words}


def test_every_closed_list_of_the_vocabulary_stands_in_the_glossary() -> None:
    defined = {
        value
        for value in vars(vocabulary).values()
        if isinstance(value, type) and issubclass(value, StrEnum) and value is not StrEnum
    }
    assert defined == {words for lists in LISTS.values() for words in lists}
