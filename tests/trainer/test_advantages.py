"""Laws of the baselines of a group, and of those that a group of one is compared with."""

from itertools import pairwise, permutations, product
from math import fsum, inf, nan, nextafter, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.vocabulary import GroupKind
from trainer.grpo.advantages import (
    Baseline,
    Running,
    baseline_for,
    folded,
    group_baselines,
    mean_of,
    running_baselines,
)

WINDOW = 8
reward = st.floats(-1, 1, width=32)
rewards = st.lists(reward, min_size=2, max_size=16)
lone = st.lists(reward, min_size=1, max_size=6)
history = st.lists(reward, max_size=20)
baselines = st.sampled_from([Baseline.MEAN, Baseline.LEAVE_ONE_OUT])


def advantages(rewards_G, baseline, **how: bool) -> list[float]:
    compared = group_baselines(rewards_G, baseline, **how)
    return [each.advantage(r) for each, r in zip(compared, rewards_G, strict=True)]


def running_of(values, window=WINDOW) -> Running | None:
    running = None
    for value in values:
        running = folded(running, value, window)
    return running


@given(rewards, baselines, st.booleans())
def test_advantages_of_a_group_sum_to_zero(rewards_G, baseline, is_scaled) -> None:
    found = advantages(rewards_G, baseline, is_scaled_by_std=is_scaled)
    size = max(map(abs, found))
    assert sum(found) == pytest.approx(0.0, abs=1e-9 * max(size, 1) * len(rewards_G))


@given(rewards, baselines, st.floats(-10, 10, width=16))
def test_a_constant_added_to_every_reward_of_a_group_changes_no_advantage(rewards_G, baseline, shift) -> None:
    shifted = [reward + shift for reward in rewards_G]
    assert advantages(shifted, baseline) == pytest.approx(advantages(rewards_G, baseline), abs=1e-9)


@given(rewards, baselines)
def test_a_better_reward_never_has_a_smaller_advantage(rewards_G, baseline) -> None:
    found = advantages(rewards_G, baseline)
    by_reward = [advantage for _, advantage in sorted(zip(rewards_G, found, strict=True))]
    assert all(worse <= better + 1e-12 for worse, better in pairwise(by_reward))


@given(rewards, baselines, st.randoms())
def test_the_order_of_a_groups_members_does_not_matter(rewards_G, baseline, random) -> None:
    mixed = list(range(len(rewards_G)))
    random.shuffle(mixed)
    found = advantages(rewards_G, baseline)
    again = advantages([rewards_G[i] for i in mixed], baseline)
    assert again == pytest.approx([found[i] for i in mixed], abs=1e-12)


@given(st.floats(-1, 1), st.integers(2, 9), baselines, st.booleans())
def test_equal_rewards_of_a_group_have_exactly_zero_advantages(reward, size, baseline, is_scaled) -> None:
    """B110, B111: no division by a standard deviation of zero either."""
    assert advantages([reward] * size, baseline, is_scaled_by_std=is_scaled) == [0.0] * size


@given(st.floats(-1, 1), st.integers(1, 30), st.integers(1, 6), st.booleans())
def test_constant_rewards_teach_nothing_on_any_other_rung_either(
    value, num_before, num_lone, is_scaled
) -> None:
    """Neither compared with the group that was trained before, nor with the running baseline: exactly 0."""
    assert mean_of([value] * num_before) == value
    running = running_of([value] * num_before)
    for known in (running, None):
        found = running_baselines(known, [value] * num_lone, WINDOW, is_scaled_by_std=is_scaled)
        assert all(each is None or each.advantage(value) == 0.0 for each in found)
    assert (running.mean, running.variance) == (value, 0.0)


@given(history, lone, reward)
def test_a_running_baseline_does_not_depend_on_the_reward_that_it_is_compared_with(
    before, rewards_L, other
) -> None:
    """To the last bit; so a reward in its own baseline cannot take a part of its own advantage away."""
    running = running_of(before)
    first, *_ = running_baselines(running, rewards_L, WINDOW)
    assert running_baselines(running, [other, *rewards_L[1:]], WINDOW)[0] == first


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(("num_before", "num_lone"), [(0, 2), (0, 5), (1, 1), (3, 2), (6, 1)])
def test_a_running_baseline_is_unbiased_from_its_first_sample_on(chance, num_before, num_lone) -> None:
    """Over all outcomes of thumbs up and down, weighted by their probability, the baseline is the expected reward:
    there is no zero at the start that pulls it down, also where the exponential part has begun (window 4)."""
    expected = 0.0
    for outcome in product([0.0, 1.0], repeat=num_before + num_lone):
        weight = prod(chance if value else 1 - chance for value in outcome)
        running = running_of(outcome[:num_before], window=4)
        expected += weight * running_baselines(running, outcome[num_before:], 4)[0].baseline
    assert expected == pytest.approx(chance)


@given(history, lone, st.floats(-10, 10, width=16))
def test_a_constant_added_to_all_rewards_of_a_route_changes_no_advantage(before, rewards_L, shift) -> None:
    plain = running_baselines(running_of(before), rewards_L, WINDOW)
    shifted_L = [value + shift for value in rewards_L]
    moved = running_baselines(running_of([value + shift for value in before]), shifted_L, WINDOW)
    for one, other, value, moved_value in zip(plain, moved, rewards_L, shifted_L, strict=True):
        assert (one is None) == (other is None)
        if one and other:
            assert other.advantage(moved_value) == pytest.approx(one.advantage(value), abs=1e-9)


@given(st.lists(reward, min_size=1, max_size=WINDOW))
def test_the_first_samples_make_a_plain_mean_and_variance_in_any_order(values) -> None:
    mean = fsum(values) / len(values)
    variance = fsum((value - mean) ** 2 for value in values) / len(values)
    for found in (running_of(values), running_of(reversed(values)), running_of(sorted(values))):
        assert found.num_samples == len(values)
        assert found.mean == pytest.approx(mean, abs=1e-12)
        assert found.variance == pytest.approx(variance, abs=1e-12)


@given(history, lone)
def test_the_order_of_the_steps_lone_rewards_does_not_matter(before, rewards_L) -> None:
    running = running_of(before)
    found = {}
    for order in list(permutations(range(len(rewards_L))))[:24]:
        compared = running_baselines(running, [rewards_L[i] for i in order], WINDOW)
        for i, each in zip(order, compared, strict=True):
            value = each and each.baseline
            assert found.setdefault(i, value) == pytest.approx(value, abs=1e-12)


def test_a_first_batch_of_lone_rewards_is_leave_one_out() -> None:
    compared = running_baselines(None, [1, 0, 0], WINDOW)
    assert [each.baseline for each in compared] == [0.0, 0.5, 0.5]
    assert [each.num_samples for each in compared] == [2, 2, 2]
    assert running_baselines(None, [1.0], WINDOW) == [None]


def test_the_running_baseline_by_hand() -> None:
    # window 2: 1 -> 1; 0 -> 1 - 1/2 = 0.5; 1 -> 0.5 + 0.5/2 = 0.75; variance 0, 1/4, (1/2)(1/4 + 1/8) = 3/16
    assert running_of([1.0], 2) == Running(1.0, 0.0, 1)
    assert running_of([1.0, 0.0], 2) == Running(0.5, 0.25, 2)
    assert running_of([1.0, 0.0, 1.0], 2) == Running(0.75, 0.1875, 3)
    # the history weighs as two: (2 x 0.75 + 0) / 3 = 0.5 for the reward beside a 0
    compared = running_baselines(Running(0.75, 0.1875, 3), [1.0, 0.0], 2)
    assert compared[0].baseline == pytest.approx(0.5)
    assert compared[0].num_samples == 4


def test_scaling_a_lone_reward_by_the_spread_by_hand() -> None:
    # history 1, 0: mean 0.5, standard deviation 0.5
    (found,) = running_baselines(Running(0.5, 0.25, 2), [1.0], WINDOW, is_scaled_by_std=True)
    assert found.advantage(1.0) == pytest.approx(1.0)


def test_mean_and_leave_one_out_by_hand() -> None:
    assert advantages([1, 0, 0, 0], Baseline.MEAN) == pytest.approx((0.75, -0.25, -0.25, -0.25))
    others = group_baselines([1, 0, 0, 0], Baseline.LEAVE_ONE_OUT)
    assert [each.baseline for each in others] == pytest.approx((0, 1 / 3, 1 / 3, 1 / 3))
    assert advantages([1, 0, 0, 0], Baseline.LEAVE_ONE_OUT) == pytest.approx((1, -1 / 3, -1 / 3, -1 / 3))


def test_scaling_by_the_standard_deviation_by_hand() -> None:
    # rewards 1, 0: mean 0.5, standard deviation 0.5
    assert advantages([1, 0], Baseline.MEAN, is_scaled_by_std=True) == pytest.approx((1.0, -1.0))


@pytest.mark.parametrize("bad", [[0.5], []])
def test_a_group_of_one_has_no_baseline_of_its_own(bad) -> None:
    """B111: one valid sample has no baseline."""
    with pytest.raises(ValueError, match="two or more finite rewards"):
        group_baselines(bad, Baseline.MEAN)


@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_a_reward_that_is_not_finite_reaches_no_mean(bad) -> None:
    """B111: it would poison the group, and the running baseline for ever."""
    for compare in (
        lambda: group_baselines([1.0, bad], Baseline.MEAN),
        lambda: mean_of([1.0, bad]),
        lambda: running_baselines(None, [1.0, bad], WINDOW),
        lambda: folded(Running(0.5, 0.25, 2), bad, WINDOW),
        lambda: folded(None, bad, WINDOW),
    ):
        with pytest.raises(ValueError, match="finite"):
            compare()


def test_prompt_groups_leave_one_out_and_groups_of_the_caller_use_the_mean() -> None:
    assert baseline_for(GroupKind.PROMPT, Baseline.BY_KIND) is Baseline.LEAVE_ONE_OUT
    for kind in (GroupKind.EXPLICIT, GroupKind.CHOICES, GroupKind.COMPARISON):
        assert baseline_for(kind, Baseline.BY_KIND) is Baseline.MEAN
    assert baseline_for(GroupKind.CHOICES, Baseline.LEAVE_ONE_OUT) is Baseline.LEAVE_ONE_OUT


@given(st.floats(0.01, 1), baselines, st.booleans())
def test_what_differs_by_rounding_only_is_equal(value, baseline, is_scaled) -> None:
    """0.1 + 0.2 and 0.3 are one reward, and a division by their deviation would make +1 and -1 of it."""
    next_one = nextafter(value, inf)
    assert advantages([value, next_one, value], baseline, is_scaled_by_std=is_scaled) == [0.0] * 3
    running = running_of([value, next_one])
    (compared,) = running_baselines(running, [next_one], WINDOW, is_scaled_by_std=is_scaled)
    assert compared.advantage(next_one) == 0.0
    assert compared.scale == 1.0
