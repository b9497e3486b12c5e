"""Which values a policy takes of a metric, by what it declares. Pure: what is known is passed in."""

from dataclasses import dataclass

from ledger.errors import RewardOutOfRangeError
from ledger.vocabulary import (
    COMMENT_METRIC,
    COMPARISON_METRIC,
    DEMONSTRATION_METRIC,
    REWARD_METRIC,
)

WORDS_METRICS = (COMMENT_METRIC, DEMONSTRATION_METRIC)
"""They have words and no value: nothing of them can count."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a policy takes of one metric.

    Example: Accepted(0.0, 10.0, 1.0), declared; Accepted(None, None, None): any finite number, which is stored and
    does not count. Early, it is what the policies of the project take together.
    """

    smallest: float | None
    largest: float | None
    weight: float | None


ANYTHING = Accepted(None, None, None)


def accepted(
    metric: str, reward_min: float | None, reward_max: float | None, declared: Accepted | None
) -> Accepted:
    """What a policy with this range of rewards takes of a metric that it declares so, or not at all (None)."""
    if declared is not None:
        return declared
    if metric == REWARD_METRIC:
        return Accepted(reward_min, reward_max, 1.0)
    return Accepted(0.0, 1.0, 1.0) if metric == COMPARISON_METRIC else ANYTHING


def check_range(metric: str, value: float | None, of: Accepted) -> None:
    """Raises RewardOutOfRangeError, which names the metric and its range.

    True says 1: of 1 to 5 stars that were the worst, so a metric takes it only where 1 is the end of its range.
    """
    if isinstance(value, bool) and of.largest not in (None, 1.0):
        raise RewardOutOfRangeError(
            f"true and false are 1 and 0, and metric {metric!r} takes {of.smallest} to {of.largest}: send a number."
        )
    if value is None or of.smallest is None or of.largest is None or of.smallest <= value <= of.largest:
        return
    raise RewardOutOfRangeError(
        f"The value {value} of metric {metric!r} is outside its range, {of.smallest} to {of.largest}: send one in it, "
        "or declare another range with `slipstream metrics declare`."
    )
