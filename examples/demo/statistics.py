"""Means with 95 % intervals over prompts: replies to one prompt are not independent, prompts are."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from examples.orders.program import Attempt

STUDENT_T_975 = 2.0  # two-sided 95 % for 60 degrees of freedom (64 prompts have 63: 1.998)


@dataclass(frozen=True, slots=True)
class Score:
    """Mean reward over prompts and its 95 % interval.

    Example: prompts with mean rewards 0, 0.5 and 1 -> mean 0.5, standard error 0.289, interval [-0.077, 1.077],
    cut to [0, 1] since no reward lies outside.
    """

    mean: float
    low: float
    high: float
    num_prompts: int
    num_replies: int


def score_of(attempts: Sequence[Attempt]) -> Score:
    """The mean reward of an exam, clustered by prompt."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for each in attempts:
        rewards[each.expected].append(each.reward)
    means = [mean(values) for values in rewards.values()]
    half = STUDENT_T_975 * stdev(means) / sqrt(len(means)) if len(means) > 1 else 1.0
    middle = mean(means)
    return Score(middle, max(0.0, middle - half), min(1.0, middle + half), len(means), len(attempts))
