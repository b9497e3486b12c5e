"""Baselines: what each reward is compared with, on every rung of the ladder (docs/decisions/0015). Pure.

Legend: G = members of a group, L = lone rewards of one route in one step. Invariants: a constant added to every reward
changes no advantage; where all rewards are equal, so is every baseline, to the last bit, and every advantage is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, isfinite, sqrt

from ledger.vocabulary import GroupKind

MIN_MEMBERS = 2
ROUNDING = 1e-9  # of their size: rewards that differ by less are equal (0.1 + 0.2 and 0.3)


class Baseline(StrEnum):
    """What each reward of a group is compared with."""

    MEAN = "mean"  # of all members: GRPO, arXiv:2402.03300 eq. 3, without its division
    LEAVE_ONE_OUT = (
        "leave_one_out"  # of the others: RLOO, arXiv:2402.14740 eq. 7; = mean's advantage x G / (G - 1)
    )
    BY_KIND = "by_kind"  # DESIGN §5: leave_one_out for prompt groups, mean where the caller made the group


@dataclass(frozen=True, slots=True)
class Compared:
    """What one reward is compared with. Example: baseline 0.25 of 4 rewards -> a reward of 1 has the advantage 0.75.

    `scale` is a standard deviation where advantages are divided by one, else 1.
    """

    baseline: float
    num_samples: int
    scale: float = 1.0

    def advantage(self, reward: float) -> float:
        """Exactly 0 where only rounding lies between: an optimizer that divides by the gradient's size would learn from it."""
        difference = reward - self.baseline
        return 0.0 if _is_rounding(difference, reward, self.baseline) else difference / self.scale


@dataclass(frozen=True, slots=True)
class Running:
    """A route's running baseline. Example: after 1, 0, 0, 0 -> mean 0.25, variance 0.1875, num_samples 4."""

    mean: float
    variance: float
    num_samples: int


def baseline_for(kind: GroupKind, choice: Baseline) -> Baseline:
    """A prompt group collects whatever traffic was alike, so no member may be judged by its own reward."""
    if choice is not Baseline.BY_KIND:
        return choice
    return Baseline.LEAVE_ONE_OUT if kind is GroupKind.PROMPT else Baseline.MEAN


def group_baselines(
    rewards_G: Sequence[float], baseline: Baseline, *, is_scaled_by_std: bool = False
) -> list[Compared]:
    """The first rung. Example, mean: rewards (1, 0, 0, 0) -> baselines .25, advantages (.75, -.25, -.25, -.25).

    Leave-one-out: baselines (0, 1/3, 1/3, 1/3), advantages (1, -1/3, -1/3, -1/3). Both sum to zero.
    Raises ValueError for fewer than two members or a reward that is not finite: neither may reach a mean (B111).
    """
    if len(rewards_G) < MIN_MEMBERS:
        raise ValueError(f"a group needs two or more finite rewards, not {list(rewards_G)}")
    first, others = _finite(rewards_G)[0], len(rewards_G) - 1
    total = fsum(reward - first for reward in rewards_G)
    scale = scale_of(_deviation(rewards_G), *rewards_G) if is_scaled_by_std else 1.0
    if baseline is Baseline.LEAVE_ONE_OUT:
        return [Compared(first + (total - (r - first)) / others, others, scale) for r in rewards_G]
    return [Compared(first + total / len(rewards_G), len(rewards_G), scale)] * len(rewards_G)


def mean_of(rewards_G: Sequence[float]) -> float:
    """Their mean, in the way that equal rewards have themselves as mean: what a trained group is stored with."""
    first = _finite(rewards_G)[0]
    return first + fsum(reward - first for reward in rewards_G) / len(rewards_G)


def running_baselines(
    running: Running | None, rewards_L: Sequence[float], window: int, *, is_scaled_by_std: bool = False
) -> list[Compared | None]:
    """The third rung: for each lone reward, the route's history and the step's other lone rewards. None = there is nothing.

    REINFORCE with a running average as baseline (Williams 1992, section 4; Sutton & Barto 2018, section 13.4), which
    differs in this: the other rewards of the step count, too, each as much as one of the history's (at most `window`
    of them), so that a first batch of k lone rewards is RLOO's leave-one-out (arXiv:2402.14740 eq. 7). A reward is never
    part of its own baseline. Example: no history, rewards (1, 0, 0) -> baselines (0, 1/2, 1/2).
    """
    _finite(rewards_L)
    found = []
    for i, _ in enumerate(rewards_L):
        others = [*rewards_L[:i], *rewards_L[i + 1 :]]
        found.append(_history_and(running, others, window, is_scaled_by_std=is_scaled_by_std))
    return found


def _history_and(
    running: Running | None, others: list[float], window: int, *, is_scaled_by_std: bool
) -> Compared | None:
    """The mean of a history that weighs as much as its samples, at most `window`, and some more rewards."""
    weight = min(running.num_samples, window) if running else 0
    if weight + len(others) == 0:
        return None
    middle = running.mean if running else others[0]
    shift = fsum(reward - middle for reward in others) / (weight + len(others))
    squares = weight * (running.variance if running else 0.0) + fsum((r - middle) ** 2 for r in others)
    variance = squares / (weight + len(others)) - shift**2
    num_samples = len(others) + (running.num_samples if running else 0)
    scale = scale_of(sqrt(max(variance, 0.0)), middle, *others) if is_scaled_by_std else 1.0
    return Compared(middle + shift, num_samples, scale)


def folded(running: Running | None, reward: float, window: int) -> Running:
    """The running baseline with one more reward: the plain mean of the first `window`, then an exponential one.

    mean += (r - mean) / min(k + 1, N): a mean's incremental form (Welford 1962) whose step stops falling at 1/N, as an EMA
    of rate 1/N has it; so there is no first value to be biased by (Adam's correction, arXiv:1412.6980 section 3,
    does the same by division). The variance likewise: Finch 2009, "Incremental calculation of weighted mean and
    variance", eq. 143. While k <= N the order of the rewards does not matter.
    """
    (reward,) = _finite([reward])
    if running is None:
        return Running(reward, 0.0, 1)
    rate, difference = 1 / min(running.num_samples + 1, window), reward - running.mean
    return Running(
        mean=running.mean + difference * rate,
        variance=(1 - rate) * (running.variance + rate * difference**2),
        num_samples=running.num_samples + 1,
    )


def scale_of(deviation: float, *rewards: float) -> float:
    """What advantages are divided by: 1 where the deviation is none but rounding."""
    return 1.0 if _is_rounding(deviation, *rewards) else deviation


def _is_rounding(difference: float, *rewards: float) -> bool:
    return abs(difference) <= ROUNDING * max(map(abs, rewards))


def _finite(rewards: Sequence[float]) -> Sequence[float]:
    if not all(map(isfinite, rewards)):
        raise ValueError(f"a baseline needs finite rewards, not {list(rewards)}")
    return rewards


def _deviation(rewards_G: Sequence[float]) -> float:
    mean = mean_of(rewards_G)
    return sqrt(fsum((reward - mean) ** 2 for reward in rewards_G) / len(rewards_G))
