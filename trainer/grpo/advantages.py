"""Advantages of one group: how much better each reward is than its baseline.

Legend: G = members of the group. Invariants: the advantages of a group sum to zero, and a constant that is added to
every reward changes none of them. All rewards equal = nothing to learn, said as `has_signal = False`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, isfinite, sqrt

from ledger.vocabulary import GroupKind

MIN_MEMBERS = 2


class Baseline(StrEnum):
    """What each reward is compared with."""

    MEAN = "mean"  # of all members: GRPO, arXiv:2402.03300 eq. 3, without its division
    LEAVE_ONE_OUT = (
        "leave_one_out"  # of the others: RLOO, arXiv:2402.14740 eq. 7; = mean's advantage x G / (G - 1)
    )
    BY_KIND = "by_kind"  # DESIGN §5: leave_one_out for prompt groups, mean where the caller made the group


@dataclass(frozen=True, slots=True)
class GroupAdvantages:
    """Example, mean: rewards (1, 0, 0, 0) -> baselines (.25, .25, .25, .25), advantages (.75, -.25, -.25, -.25).

    Leave-one-out: baselines (0, 1/3, 1/3, 1/3), advantages (1, -1/3, -1/3, -1/3).
    """

    baselines_G: tuple[float, ...]
    advantages_G: tuple[float, ...]
    has_signal: bool


def baseline_for(kind: GroupKind, choice: Baseline) -> Baseline:
    """A prompt group collects whatever traffic was alike, so no member may be judged by its own reward."""
    if choice is not Baseline.BY_KIND:
        return choice
    return Baseline.LEAVE_ONE_OUT if kind is GroupKind.PROMPT else Baseline.MEAN


def group_advantages(
    rewards_G: Sequence[float], baseline: Baseline, *, is_scaled_by_std: bool = False
) -> GroupAdvantages:
    """`advantage = reward - baseline`, divided by the group's standard deviation if asked.

    Raises ValueError for fewer than two members or a reward that is not finite: neither may reach a mean (B111).
    """
    if len(rewards_G) < MIN_MEMBERS or not all(map(isfinite, rewards_G)):
        raise ValueError(f"a group needs two or more finite rewards, not {list(rewards_G)}")
    if min(rewards_G) == max(rewards_G):
        return GroupAdvantages(tuple(rewards_G), (0.0,) * len(rewards_G), has_signal=False)
    total, others = fsum(rewards_G), len(rewards_G) - 1
    if baseline is Baseline.LEAVE_ONE_OUT:
        baselines = tuple((total - reward) / others for reward in rewards_G)
    else:
        baselines = (total / len(rewards_G),) * len(rewards_G)
    scale = _standard_deviation(rewards_G) if is_scaled_by_std else 1.0
    advantages = tuple((r - b) / scale for r, b in zip(rewards_G, baselines, strict=True))
    return GroupAdvantages(baselines, advantages, has_signal=True)


def _standard_deviation(rewards_G: Sequence[float]) -> float:
    mean = fsum(rewards_G) / len(rewards_G)
    return sqrt(fsum((reward - mean) ** 2 for reward in rewards_G) / len(rewards_G))
