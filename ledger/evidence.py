"""Whether rewards could show an improvement of a given size: how many of each version that takes. Pure.

n = 2 (z₁ + z₂)² σ² / δ² for each of two versions: the normal approximation of a two-sample comparison, two-sided at 95 %
(z₁ = 1.960) with a power of 80 % (z₂ = 0.842), so n ≈ 15.7 σ²/δ² (van Belle, Statistical Rules of Thumb, 2008, chapter 2: "16 σ²/δ²").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, fsum
from statistics import NormalDist
from typing import Literal

CONFIDENCE = 0.95
POWER = 0.8
FORMULA = "n = 2 (z(0.975) + z(0.8))² σ² / δ²"
_Z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2) + NormalDist().inv_cdf(POWER)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Example: rewards of standard deviation 0.5 -> an improvement of 0.1 needs 393 of each of two versions.

    `num_rewards` is the smaller number of the two versions that have most. `num_needed` None = the spread is unknown: too
    few rewards, or all of a version alike, as a rare reward is at first.
    """

    effect: float
    variance: float | None
    num_needed: int | None
    num_rewards: int
    versions: tuple[int, ...]

    @property
    def could_show(self) -> bool:
        return self.num_needed is not None and self.num_rewards >= self.num_needed

    @property
    def unknown_reason(self) -> Literal["too_few", "all_alike"] | None:
        """Why `num_needed` is None."""
        if self.num_needed is not None:
            return None
        return "too_few" if self.variance is None else "all_alike"


def evidence_of(rewards: Mapping[int, Sequence[float]], effect: float) -> Evidence:
    """`rewards` by version. The spread is pooled within versions, so that an improvement does not look like noise."""
    by_number = sorted(rewards, key=lambda version: (-len(rewards[version]), -version))[:2]
    num_rewards = len(rewards[by_number[1]]) if len(by_number) > 1 else 0
    variance = _pooled_variance(list(rewards.values()))
    needed = num_needed(variance, effect) if variance else None
    return Evidence(effect, variance, needed, num_rewards, tuple(sorted(by_number)))


def num_needed(variance: float, effect: float) -> int:
    """Of each of two versions, at least two."""
    return max(2, ceil(2 * _Z**2 * variance / effect**2))


def _pooled_variance(samples: Sequence[Sequence[float]]) -> float | None:
    freedom = sum(len(sample) - 1 for sample in samples if sample)
    return _squares(samples) / freedom if freedom > 0 else None


def _squares(samples: Sequence[Sequence[float]]) -> float:
    """Of samples that are all alike exactly 0, whatever the rounding of a mean."""
    differ = [sample for sample in samples if sample and min(sample) < max(sample)]
    means = [fsum(sample) / len(sample) for sample in differ]
    return fsum((value - mean) ** 2 for sample, mean in zip(differ, means, strict=True) for value in sample)
