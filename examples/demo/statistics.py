"""Means with 95 % intervals over sentences: replies to one prompt are alike, and so are prompts of one sentence."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from examples.orders.program import Attempt

STUDENT_T_975 = {15: 2.131}  # two-sided 95 %, by degrees of freedom: the held-out set has 16 sentences


@dataclass(frozen=True, slots=True)
class Score:
    """Mean reward and its 95 % interval (Student's t over the means of the sentences), cut to the rewards' [0, 1].

    Example: 16 sentences, half with mean reward 0 and half with 1 -> mean 0.5, standard deviation 0.516, standard error
    0.129, interval 0.5 ± 2.131 x 0.129 = [0.225, 0.775].
    """

    mean: float
    low: float
    high: float
    num_sentences: int
    num_replies: int
    sentence_means: tuple[float, ...] = ()  # in the order of the sentences' names


def score_of(attempts: Sequence[Attempt]) -> Score:
    """The score of an exam. Every sentence has equally many replies, so the mean of means is the mean."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for each in attempts:
        rewards[each.sentence].append(each.reward)
    means = [mean(rewards[sentence]) for sentence in sorted(rewards)]
    return score_of_means(means, len(attempts))


def score_of_means(means: Sequence[float], num_replies: int) -> Score:
    half, middle = half_width(means), mean(means)
    return Score(
        middle, max(0.0, middle - half), min(1.0, middle + half), len(means), num_replies, tuple(means)
    )


def half_width(means: Sequence[float]) -> float:
    """Half of the 95 % interval of the sentences' mean."""
    return STUDENT_T_975[len(means) - 1] * stdev(means) / sqrt(len(means))
