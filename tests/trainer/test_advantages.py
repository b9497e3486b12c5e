"""Laws of the advantages of one group."""

from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ledger.vocabulary import GroupKind
from trainer.grpo.advantages import Baseline, baseline_for, group_advantages

rewards = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=16)
baselines = st.sampled_from([Baseline.MEAN, Baseline.LEAVE_ONE_OUT])


@given(rewards, baselines, st.booleans())
def test_advantages_of_a_group_sum_to_zero(rewards_G, baseline, is_scaled) -> None:
    found = group_advantages(rewards_G, baseline, is_scaled_by_std=is_scaled)
    size = max(map(abs, found.advantages_G))
    assert sum(found.advantages_G) == pytest.approx(0.0, abs=1e-9 * max(size, 1) * len(rewards_G))


@given(rewards, baselines, st.floats(-10, 10, width=16))
def test_a_constant_added_to_every_reward_changes_no_advantage(rewards_G, baseline, shift) -> None:
    shifted = [reward + shift for reward in rewards_G]
    assume((min(rewards_G) == max(rewards_G)) == (min(shifted) == max(shifted)))  # float addition may round
    before = group_advantages(rewards_G, baseline).advantages_G
    assert group_advantages(shifted, baseline).advantages_G == pytest.approx(before, abs=1e-9)


@given(rewards, baselines)
def test_a_better_reward_never_has_a_smaller_advantage(rewards_G, baseline) -> None:
    found = group_advantages(rewards_G, baseline).advantages_G
    by_reward = [advantage for _, advantage in sorted(zip(rewards_G, found, strict=True))]
    assert all(worse <= better + 1e-12 for worse, better in pairwise(by_reward))


@given(st.floats(-1, 1), st.integers(2, 9), baselines, st.booleans())
def test_equal_rewards_have_no_signal_and_exactly_zero_advantages(reward, size, baseline, is_scaled) -> None:
    """B110, B111: no division by a standard deviation of zero either."""
    found = group_advantages([reward] * size, baseline, is_scaled_by_std=is_scaled)
    assert not found.has_signal
    assert found.advantages_G == (0.0,) * size


def test_mean_and_leave_one_out_by_hand() -> None:
    mean = group_advantages([1, 0, 0, 0], Baseline.MEAN)
    assert mean.advantages_G == pytest.approx((0.75, -0.25, -0.25, -0.25))
    others = group_advantages([1, 0, 0, 0], Baseline.LEAVE_ONE_OUT)
    assert others.baselines_G == pytest.approx((0, 1 / 3, 1 / 3, 1 / 3))
    assert others.advantages_G == pytest.approx((1, -1 / 3, -1 / 3, -1 / 3))  # the mean's x 4/3


def test_scaling_by_the_standard_deviation_by_hand() -> None:
    # rewards 1, 0: mean 0.5, standard deviation 0.5
    found = group_advantages([1, 0], Baseline.MEAN, is_scaled_by_std=True)
    assert found.advantages_G == pytest.approx((1.0, -1.0))


@pytest.mark.parametrize("bad", [[0.5], [], [1.0, nan], [0.0, inf]])
def test_one_reward_or_one_that_is_not_finite_never_reaches_a_mean(bad) -> None:
    """B111: a NaN reward must not poison the group, and one valid sample has no baseline."""
    with pytest.raises(ValueError, match="two or more finite rewards"):
        group_advantages(bad, Baseline.MEAN)


def test_prompt_groups_leave_one_out_and_groups_of_the_caller_use_the_mean() -> None:
    assert baseline_for(GroupKind.PROMPT, Baseline.BY_KIND) is Baseline.LEAVE_ONE_OUT
    assert baseline_for(GroupKind.EXPLICIT, Baseline.BY_KIND) is Baseline.MEAN
    assert baseline_for(GroupKind.CHOICES, Baseline.BY_KIND) is Baseline.MEAN
    assert baseline_for(GroupKind.CHOICES, Baseline.LEAVE_ONE_OUT) is Baseline.LEAVE_ONE_OUT
