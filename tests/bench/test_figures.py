"""The arithmetic of the bench: numbers worked out by hand."""

import pytest

from bench.gateway.figures import Row, figures_of, over_rounds, percentile
from bench.gateway.targets import TARGETS, verdicts
from bench.verdict import Target


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (75, 3), (99, 4), (100, 4), (1, 1)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile([4, 1, 3, 2], percent) == expected


def test_rounds_are_compared_one_by_one_and_the_median_counts() -> None:
    slow_machine = {0: 10.0, 1: 30.0, 2: 20.0}  # ratios 2, 3, 10: the median is 3, that of the sums 3.6
    assert over_rounds(lambda a, b: a / b, slow_machine, {0: 5.0, 1: 10.0, 2: 2.0, 3: 1.0}) == 3
    assert over_rounds(lambda a, b: a / b, slow_machine, {}) is None


def row(measure: str, contender: str, round_: int = 0, **values: float) -> Row:
    return Row(measure, contender, round_, values)


def test_figures_name_measure_contender_and_value() -> None:
    figures = figures_of(
        [
            row("unstreamed", "nginx", cpu_us=50),
            row("unstreamed", "slipstream", cpu_us=400, num_failed=1),
            row("unstreamed", "litellm", cpu_us=20_000),
        ]
    )
    assert figures["unstreamed_nginx_cpu_us"] == 50
    assert figures["unstreamed_cpu_over_nginx"] == 8
    assert figures["unstreamed_cpu_litellm_over_ours"] == 50
    assert figures["num_failed"] == 1


def test_added_latency_is_the_difference_to_direct_in_the_same_round() -> None:
    rows = [
        row("latency", who, round_, median_ms=median, p99_ms=2 * median)
        for round_, values in enumerate([(0.1, 0.5, 8.1), (0.3, 0.9, 12.3)])
        for who, median in zip(("direct", "slipstream", "litellm"), values, strict=True)
    ]
    figures = figures_of(rows)
    assert figures["latency_added_slipstream_median_ms"] == pytest.approx(0.5)  # of 0.4 and 0.6
    assert figures["latency_added_litellm_over_ours"] == pytest.approx(20)  # 10 / 0.5


def test_nothing_added_is_no_division_by_zero() -> None:
    values = {"direct": 1.0, "slipstream": 0.9, "litellm": 11.0}
    rows = [row("latency", who, median_ms=ms, p99_ms=ms) for who, ms in values.items()]
    assert figures_of(rows)["latency_added_litellm_over_ours"] == pytest.approx(1000)  # 10 / 0.01


def test_more_processes_are_compared_by_throughput_and_prompts_by_cost() -> None:
    figures = figures_of(
        [
            row("workers", "slipstream-1", per_second=1000, num_failed=0),
            row("workers", "slipstream-2", per_second=1500, num_failed=2),
            row("prompt_2kb", "slipstream", cpu_us=300, num_failed=0),
            row("prompt_150kb", "slipstream", cpu_us=900, num_failed=0),
        ]
    )
    assert (figures["workers_2_over_1"], figures["long_prompt_slipstream_ratio"]) == (1.5, 3)
    assert figures["num_failed"] == 2


def test_only_what_was_measured_is_judged() -> None:
    (verdict,) = verdicts({"chunk_cpu_over_nginx": 2.5, "chunk_nginx_cpu_us": 50})
    assert (verdict.target.figure, verdict.is_met) == ("chunk_cpu_over_nginx", False)


@pytest.mark.parametrize(("value", "is_met"), [(0.9, True), (1, True), (1.1, False)])
def test_bounds_are_inclusive(value: float, is_met: bool) -> None:
    assert Target("x", "a sentence", at_most=1).is_met(value) == is_met
    assert Target("x", "a sentence", at_least=-1).is_met(-value) == is_met


def test_every_target_has_a_bound_and_a_name_of_its_own() -> None:
    assert len({target.figure for target in TARGETS}) == len(TARGETS)
    assert all((target.at_most is None) != (target.at_least is None) for target in TARGETS)
