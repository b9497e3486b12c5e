"""Learning from thumbs: who speaks, what the control shuffles, what an improvement is, and what a run leaves behind."""

import json
import random
from pathlib import Path

import pytest

from examples.demo.statistics import Score, score_of_means
from examples.feedback.chart import draw
from examples.feedback.course import ROUNDS
from examples.feedback.result import Examined, Result, read, read_all, together
from examples.feedback.traffic import CALLS_PER_ROUND, SHARE, serve
from examples.feedback.users import shuffled, who_speaks
from examples.orders.task import prompts
from tests.fakes.product import running_product


def _result(before: list[float], after: list[float], name: str = "running", seed: int = 0) -> Result:
    exams = (Examined(0, 0, score_of_means(before, 256)), Examined(3, 800, score_of_means(after, 256)))
    return Result(name, seed, 800, 240, 100, exams, 12.5)


def _around(middle: float) -> list[float]:
    """16 sentences; standard deviation 0.103 (0.1 x sqrt(16 / 15)), interval ± 0.055."""
    return [middle - 0.1, middle + 0.1] * 8


def test_no_prompt_of_a_run_is_asked_twice_nor_held_out() -> None:
    training, heldout = prompts(0, training=ROUNDS * CALLS_PER_ROUND)
    asked = [str(one.messages) for one in training]
    assert len(set(asked)) == 640
    assert not set(asked) & {str(one.messages) for one in heldout}


def test_three_in_ten_answers_get_a_thumb() -> None:
    found = who_speaks(CALLS_PER_ROUND, SHARE, random.Random(0))
    assert len(found) == len(set(found)) == 48
    assert found == sorted(found)
    assert set(found) <= set(range(160))
    assert found != who_speaks(CALLS_PER_ROUND, SHARE, random.Random(1))


def test_shuffled_thumbs_are_as_many_ups_and_downs_on_other_answers() -> None:
    thumbs = [True] * 15 + [False] * 33
    found = shuffled(thumbs, random.Random(0))
    assert sum(found) == 15
    assert found != thumbs
    assert shuffled(thumbs, random.Random(0)) == found


def test_an_improvement_is_intervals_that_do_not_touch() -> None:
    assert _result(_around(0.3), _around(0.5)).has_improved
    assert not _result(_around(0.3), _around(0.4)).has_improved
    assert not _result(_around(0.5), _around(0.3)).has_improved


def test_what_was_gained_is_paired_by_sentence() -> None:
    """All sentences gain 0.2 but two, which gain 0.1 and 0.3: sd sqrt(0.02 / 15) = 0.0365, x 2.131 / 4 = 0.0195."""
    after = [value + 0.2 for value in _around(0.3)]
    after[0], after[1] = after[0] - 0.1, after[1] + 0.1
    result = _result(_around(0.3), after)
    assert result.gain() == pytest.approx((0.1805, 0.2, 0.2195), abs=1e-4)
    assert result.gain_per_1000 == pytest.approx(0.25)  # 0.2 in 800 calls


def test_several_seeds_together_are_still_sixteen_sentences() -> None:
    found = together([score_of_means(_around(middle), 256) for middle in (0.2, 0.3, 0.4)])
    assert (found.mean, found.num_sentences, found.num_replies) == (pytest.approx(0.3), 16, 768)
    assert found.high - found.mean == pytest.approx(0.1 * (16 / 15) ** 0.5 * 2.131 / 4)


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    written = [_result(_around(0.3), _around(0.9), "running", seed) for seed in (0, 1)]
    control = _result(_around(0.3), _around(0.3), "shuffled")
    for one in [control, *written]:
        one.write(tmp_path)
    assert read_all(tmp_path) == [*written, control]
    assert json.loads((tmp_path / "running-0.json").read_text())["num_thumbs"] == 240
    assert read(tmp_path / "shuffled-0.json").exams[0].score.sentence_means == tuple(_around(0.3))


def test_the_picture_is_a_png_with_or_without_the_control(tmp_path: Path) -> None:
    runs = [_result(_around(0.3), _around(0.9)), _result(_around(0.3), _around(0.3), "shuffled")]
    for number in (1, 2):
        draw(runs[:number], "a title", tmp_path / "feedback.png")
        assert (tmp_path / "feedback.png").read_bytes().startswith(b"\x89PNG")


async def test_a_round_asks_each_prompt_once_without_a_word_of_groups() -> None:
    async with running_product() as (client, seen):
        done = await serve(client, prompts(0)[0][:20], seed=1, is_shuffled=False)
    assert (done.num_calls, len(done.thumbs), done.num_tokens) == (20, 6, 100)
    assert len({str(call["messages"]) for call in seen.calls}) == 20
    assert all(call.get("n", 1) == 1 for call in seen.calls)
    ours = {"x-group-id", "x-session-id", "x-trajectory-id"}
    assert not any(ours & call["headers"].keys() for call in seen.calls)


@pytest.mark.parametrize("is_shuffled", [False, True])
async def test_a_thumb_says_whether_the_answer_was_right_unless_shuffled(is_shuffled: bool) -> None:
    async with running_product() as (client, seen):
        done = await serve(client, prompts(0)[0][:40], seed=3, is_shuffled=is_shuffled)
    deserved = [thumb["was_right"] for thumb in seen.thumbs]
    said = [thumb["reward"] for thumb in seen.thumbs]
    assert sorted(said) == sorted(deserved) == sorted(done.thumbs)
    assert (said == deserved) is not is_shuffled
    assert all(type(one) is bool for one in said)


def test_a_score_without_its_sentences_is_still_a_score() -> None:
    assert Score(0.3, 0.2, 0.4, 16, 256).sentence_means == ()
