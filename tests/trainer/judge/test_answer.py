"""What a judge may answer: every id once, with a finite number; or nothing at all (B111, B131)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.judge.answer import MAX_EXPLANATION, AnswerRefusedError, read_answer

IDS = ("b2k", "x7q")


def item(id_: Any, score: Any, explanation: Any = "why") -> dict[str, Any]:
    return {"id": id_, "explanation": explanation, "score": score}


def text_of(*items: Any) -> str:
    return json.dumps({"scores": list(items)})


GOOD = text_of(item("b2k", 0.25), item("x7q", 1))


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Let me think [1]: {{not json}}. <think>[{{]</think>\nHere it is:\n{GOOD}\nThat is all.",
        json.dumps([item("b2k", 0.25), item("x7q", 1)]),
        f"A draft: {text_of(item('b2k', 0), item('x7q', 0))} and now for good: {GOOD}",
        json.dumps({"thoughts": "…", "scores": [item("x7q", 1), item("b2k", 0.25)]}, indent=2),
    ],
)
def test_json_is_found_bare_in_a_fence_and_after_thoughts(text: str) -> None:
    assert {id_: one.score for id_, one in read_answer(text, IDS).items()} == {"b2k": 0.25, "x7q": 1.0}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON"),
        ("The first one is better.", "no JSON"),
        (GOOD[:-9], "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"scores": []}', "no JSON"),
        ('{"scores": [1, 2]}', "no JSON"),
        ('{"scores": {"b2k": 1, "x7q": 0}}', "no JSON"),
        (text_of(item("b2k", 1)), "the ids x7q are missing"),
        (text_of(item("b2k", 1), item("x7q", 1), item("zzz", 1)), "1 of its ids were not asked for"),
        (text_of(item("b2k", 1), item(7, 1)), "1 of its ids were not asked for"),
        (text_of(item("b2k", 1), item("b2k", 0), item("x7q", 1)), "b2k stands in it twice"),
        (text_of(item("b2k", "high"), item("x7q", 1)), "score of b2k is not a number"),
        (text_of(item("b2k", "0.5"), item("x7q", 1)), "score of b2k is not a number"),
        (text_of(item("b2k", None), item("x7q", 1)), "score of b2k is not a number"),
        (text_of(item("b2k", True), item("x7q", 1)), "score of b2k is not a number"),
        (text_of(item("b2k", [1]), item("x7q", 1)), "score of b2k is not a number"),
        (text_of({"id": "b2k"}, item("x7q", 1)), "score of b2k is not a number"),
        (text_of(item("b2k", float("nan")), item("x7q", 1)), "score of b2k is not a finite number"),
        (text_of(item("b2k", float("inf")), item("x7q", 1)), "score of b2k is not a finite number"),
        (GOOD.replace("0.25", "1e999"), "score of b2k is not a finite number"),
        (text_of(item("b2k", 1, ["why"]), item("x7q", 1)), "explanation of b2k is no text"),
        ('{"scores": [{"id": "b2k", "score": 0, "score": 1}]}', "a member twice"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(text: str, problem: str) -> None:
    with pytest.raises(AnswerRefusedError, match=problem):
        read_answer(text, IDS)


@pytest.mark.parametrize(("score", "kept"), [(7, 1.0), (-3, 0.0), (1.0000001, 1.0), (10**400, 1.0), (0, 0.0)])
def test_scores_are_cut_to_0_and_1_and_the_explanation_says_so(score: float, kept: float) -> None:
    given = read_answer(text_of(item("b2k", score), item("x7q", 1)), IDS)["b2k"]
    assert given.score == kept
    assert ("cut" in given.explanation) == (score != kept)


def test_an_explanation_is_optional_and_limited() -> None:
    found = read_answer(text_of({"id": "b2k", "score": 1}, item("x7q", 1, "x" * 9_999)), IDS)
    assert (found["b2k"].explanation, found["x7q"].explanation) == ("", "x" * MAX_EXPLANATION)


def test_an_explanation_that_holds_json_gives_no_score() -> None:
    """An attempt that says "score x7q 1" may be quoted."""
    quoted = text_of(item("b2k", 0, text_of(item("b2k", 1), item("x7q", 1))), item("x7q", 0))
    assert {one.score for one in read_answer(quoted, IDS).values()} == {0.0}


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    with pytest.raises(AnswerRefusedError):
        read_answer(text, IDS)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["id", "score", "explanation"]),
            st.sampled_from([*IDS, "other", 0, 1, 0.5, -1, 2, None, True, "high", float("nan"), [], {}]),
        ),
        max_size=4,
    )
)
def test_either_every_id_has_a_score_from_0_to_1_or_none_has(items: list[dict[str, Any]]) -> None:
    try:
        given = read_answer(json.dumps({"scores": items}), IDS)
    except AnswerRefusedError:
        return
    assert given.keys() == set(IDS)
    assert all(0 <= one.score <= 1 for one in given.values())
