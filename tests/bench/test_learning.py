"""The learning bench: every rung has the same calls and thumbs, asked as it says, and a missed target is said."""

from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from bench.learning import report
from bench.learning.picture import draw, steps
from bench.learning.rungs import RUNGS
from examples.demo.statistics import score_of_means
from examples.feedback.result import Examined, Result
from tests.fakes.product import Seen, running_product


def run_of(name: str, seed: int, *means: float, kind: str | None = None) -> Result:
    """A version after each 160 calls; 16 sentences, each mean ± 0.1: intervals ± 0.055."""
    exams = tuple(
        Examined(version, 160 * version, score_of_means([mean - 0.1, mean + 0.1] * 8, 256))
        for version, mean in enumerate(means)
    )
    compared = {kind or RUNGS[name].baseline: 48}
    return Result(name, seed, 160 * (len(means) - 1), 48 * (len(means) - 1), 15, exams, 100.0, compared)


async def a_round(name: str) -> tuple[Seen, int, int]:
    async with running_product() as (client, seen):
        done = await RUNGS[name].practise(0, 2)(client, 1)
    return seen, done.num_calls, len(done.thumbs)


@pytest.mark.parametrize("name", RUNGS)
async def test_every_rung_has_as_many_answers_and_as_many_thumbs(name: str) -> None:
    seen, num_calls, num_thumbs = await a_round(name)
    assert (num_calls, num_thumbs) == (160, 48)
    assert sum(call.get("n", 1) for call in seen.calls) == 160
    assert len({(thumb["target"], thumb.get("choice", 0)) for thumb in seen.thumbs}) == 48
    if name != "shuffled":
        assert all(thumb["reward"] is thumb["was_right"] for thumb in seen.thumbs)


@pytest.mark.parametrize(
    ("name", "num_calls", "num_prompts", "num_named"),
    [("running", 160, 160, 0), ("shuffled", 160, 160, 0), ("explicit", 160, 20, 20), ("choices", 20, 20, 0), ("prompt", 160, 20, 0)],
)  # fmt: skip
async def test_a_rung_asks_as_it_says(name: str, num_calls: int, num_prompts: int, num_named: int) -> None:
    seen, _, _ = await a_round(name)
    prompts = Counter(str(call["messages"]) for call in seen.calls)
    named = Counter(call["headers"]["x-group-id"] for call in seen.calls if "x-group-id" in call["headers"])
    assert (len(seen.calls), len(prompts), len(named)) == (num_calls, num_prompts, num_named)
    assert len({*prompts.values(), *named.values()}) == 1


async def test_where_there_are_groups_whole_groups_are_judged() -> None:
    seen, _, _ = await a_round("choices")
    assert set(Counter(thumb["target"] for thumb in seen.thumbs).values()) == {8}


def test_the_gain_is_per_thousand_calls() -> None:
    """0.3 -> 0.6 in 320 calls, and -> 0.5: (0.3 + 0.2) / 2 / 0.32 = 0.78. In the first 160: 0.1 / 0.16 = 0.625."""
    figures = report.figures_of([run_of("running", 0, 0.3, 0.4, 0.6), run_of("running", 1, 0.3, 0.4, 0.5)])
    assert figures["running_gain_per_1000"] == pytest.approx(0.78125)
    assert figures["running_early_gain_per_1000"] == pytest.approx(0.625)
    assert (figures["running_num_seeds"], figures["running_num_calls"], figures["running_share_judged"]) == (2, 320, 0.3)  # fmt: skip
    assert (figures["running_before"], figures["running_after"]) == (
        pytest.approx(0.3),
        pytest.approx(0.55),
    )


def missed(*results: Result) -> set[str]:
    found = report.verdicts(report.figures_of(results))
    return {verdict.target.figure for verdict in found if not verdict.is_met}


def test_the_statement_is_true_thumbs_teach_in_each_seed_and_shuffled_ones_in_none() -> None:
    good = [run_of("running", seed, 0.3, 0.9) for seed in range(3)]
    control = [run_of("shuffled", seed, 0.3, 0.3) for seed in range(3)]
    assert missed(*good, *control) == set()
    assert missed(*good[:2], run_of("running", 2, 0.3, 0.4), *control) == {"running_share_improved"}
    assert missed(*good, *control[:2], run_of("shuffled", 2, 0.3, 0.5)) == {"shuffled_share_improved"}


def test_samples_that_another_rung_taught_are_a_miss() -> None:
    assert missed(run_of("prompt", 0, 0.3, 0.9)) == set()
    assert missed(run_of("prompt", 0, 0.3, 0.9, kind="running")) == {"num_other_baselines"}


def test_seeds_are_drawn_together_at_each_number_of_calls() -> None:
    """The second run's first step made no version: its version 0 still stands there."""
    whole = run_of("prompt", 0, 0.3, 0.5, 0.7)
    late = Result("prompt", 1, 320, 96, 30, (whole.exams[0], whole.exams[2]), 1.0)
    found = [(calls, [exam.version for exam in exams]) for calls, exams in steps([whole, late])]
    assert found == [(0, [0, 0]), (160, [1, 0]), (320, [2, 2])]


def test_the_report_is_written_shown_and_drawn(tmp_path: Path) -> None:
    results = [run_of(name, 0, 0.3, 0.9) for name in RUNGS]
    figures = report.figures_of(results)
    report.write({"cores": 2}, figures, results, tmp_path / "learning.json")
    draw(results, tmp_path / "learning.png")
    console = Console(width=150, record=True)
    report.show(console, figures, results)
    shown = console.export_text()
    assert all(RUNGS[name].asks in shown for name in RUNGS)
    assert "missed" in shown  # shuffled improved
    assert {path.name for path in tmp_path.iterdir()} == {"learning.json", "learning.png"}
