"""How many rewards it takes to see an improvement: by hand, and against coin tosses."""

import random

import pytest

from ledger.evidence import Evidence, evidence_of, num_needed


def test_the_number_by_hand() -> None:
    # 2 x (1.95996 + 0.84162)^2 = 15.698; x 0.25 / 0.01 = 392.4
    assert num_needed(0.25, 0.1) == 393
    assert num_needed(0.25, 0.05) == 1570
    assert num_needed(0.0, 0.1) == 2


def test_the_smaller_of_the_two_best_versions_counts() -> None:
    found = evidence_of({0: [0.0, 1.0] * 100, 1: [0.0, 1.0] * 300, 2: [1.0]}, 0.1)
    assert (found.versions, found.num_rewards) == ((0, 1), 200)
    assert not found.could_show
    assert evidence_of({0: [0.0, 1.0] * 200, 1: [0.0, 1.0] * 200}, 0.1).could_show


def test_a_difference_between_versions_is_no_spread() -> None:
    assert evidence_of({0: [0.0, 0.0, 0.0], 1: [1.0, 1.0, 1.0]}, 0.1).variance == 0.0


@pytest.mark.parametrize("rewards", [{}, {0: []}, {0: [1.0]}, {0: [1.0], 1: [0.0]}])
def test_without_two_rewards_of_one_version_nothing_is_said(rewards: dict[int, list[float]]) -> None:
    found = evidence_of(rewards, 0.1)
    assert (found.variance, found.num_needed, found.could_show) == (None, None, False)


def test_with_so_many_rewards_four_of_five_trials_see_the_improvement() -> None:
    """The power that the formula promises: 0.5 against 0.7 in a thousand trials, seeded."""
    rng = random.Random(5)
    n = num_needed(0.23, 0.2)  # the mean of 0.5 x 0.5 and 0.7 x 0.3
    seen = 0
    for _ in range(1000):
        before, after = (sum(rng.random() < chance for _ in range(n)) / n for chance in (0.5, 0.7))
        error = ((before * (1 - before) + after * (1 - after)) / n) ** 0.5
        seen += abs(after - before) > 1.96 * error
    assert 750 < seen < 860


def test_the_example_of_the_docstring() -> None:
    found = evidence_of({0: [0.0, 1.0] * 500, 1: [0.0, 1.0] * 500}, 0.1)
    assert found == Evidence(0.1, pytest.approx(0.25, abs=1e-3), 393, 1000, (0, 1))


@pytest.mark.parametrize("rewards", [{0: [0.0, 0.0], 1: [0.0, 0.0]}, {0: [0.1] * 3, 1: [0.7] * 50}])
def test_rewards_that_are_all_alike_show_nothing(rewards: dict[int, list[float]]) -> None:
    """So a rare reward begins. 3 x 0.1 / 3 is not 0.1: the rounding of a mean is no spread."""
    found = evidence_of(rewards, 0.1)
    assert (found.variance, found.num_needed, found.could_show) == (0.0, None, False)
    assert found.unknown_reason == "all_alike"
    assert evidence_of({0: [1.0]}, 0.1).unknown_reason == "too_few"
    assert evidence_of({0: [0.0, 1.0]}, 0.1).unknown_reason is None
