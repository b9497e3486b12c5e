"""The demo's honesty: what is held out is never practised on, and the intervals are what they say."""

from pathlib import Path

import pytest

from examples.demo.chart import draw
from examples.demo.result import Result
from examples.demo.statistics import Score, score_of
from examples.orders.program import Attempt
from examples.orders.task import prompts, score


def _attempt(sentence: str, expected: str, reward: float) -> Attempt:
    return Attempt(sentence, expected, "", reward, "", 0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_and_held_out_prompts_share_neither_a_sentence_nor_a_number(seed: int) -> None:
    training, heldout = prompts(seed)
    assert (len(training), len(heldout)) == (240, 64)
    assert not {p.sentence for p in training} & {p.sentence for p in heldout}
    assert not {p.expected for p in training} & {p.expected for p in heldout}


def test_the_held_out_prompts_are_the_same_for_every_seed_and_training_is_not() -> None:
    assert prompts(0)[1] == prompts(1)[1]
    assert prompts(0)[0] != prompts(1)[0]
    assert prompts(2) == prompts(2)


@pytest.mark.parametrize(
    ("text", "reward"),
    [("5172", 1.0), (" 5172\n", 1.0), ("Order 5172", 0.0), ("5172.", 0.0), ("", 0.0), ("517", 0.0)],
)
def test_only_the_number_itself_is_rewarded(text: str, reward: float) -> None:
    assert score(text, "5172") == reward


def test_the_interval_treats_prompts_of_one_sentence_as_alike() -> None:
    """8 sentences at 0, 8 at 1: sd of the means 0.5164, /4 = 0.1291, x 2.131 = 0.2751."""
    attempts = [_attempt(str(s), f"{s}-{n}", float(s % 2)) for s in range(16) for n in range(4)]
    found = score_of(attempts)
    assert (found.mean, found.num_sentences, found.num_replies) == (0.5, 16, 64)
    assert (found.low, found.high) == (pytest.approx(0.2249, abs=1e-4), pytest.approx(0.7751, abs=1e-4))


def _result(before: tuple[float, float, float], after: tuple[float, float, float]) -> Result:
    return Result(
        0, 1, before[1], after[1], (before[0], before[2]), (after[0], after[2]), [], 1, 1.0, {}, 64, 16
    )


def test_an_improvement_is_at_least_so_large_and_its_intervals_do_not_touch() -> None:
    assert _result((0.2, 0.3, 0.4), (0.5, 0.6, 0.7)).has_improved(0.3)
    assert not _result((0.2, 0.3, 0.4), (0.45, 0.55, 0.65)).has_improved(0.3)
    assert not _result((0.1, 0.3, 0.5), (0.5, 0.7, 0.9)).has_improved(0.3)


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    exams = {version: Score(0.3 + 0.1 * version, 0.2, 0.9, 16, 256) for version in range(4)}
    draw(exams, {0: 0.4, 2: 0.6}, "a title", tmp_path / "reward.png")
    assert (tmp_path / "reward.png").read_bytes().startswith(b"\x89PNG")
