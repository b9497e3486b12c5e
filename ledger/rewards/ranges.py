"""Which values a policy takes of a metric, by what it declares. Pure: what is known is passed in."""

from dataclasses import dataclass

from ledger.errors import RewardOutOfRangeError
from ledger.vocabulary import COMPARISON_METRIC, REWARD_METRIC, Direction


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


@dataclass(frozen=True, slots=True)
class Scale:
    """How a policy reads the metric `reward`: its range, which end of it is good, and whether it counts at all.

    Example: Scale(0.0, 10.0, Direction.LOWER, 1.0): the best is 0, the worst 10.
    """

    smallest: float
    largest: float
    direction: Direction = Direction.HIGHER
    weight: float = 1.0

    @property
    def is_counted(self) -> bool:
        return self.weight > 0

    def value_of(self, goodness: float) -> float:
        """Of 0 (the worst) to 1 (the best). Example: 0.75 on Scale(-1.0, 1.0) -> 0.5. Never outside, by rounding either."""
        share = goodness if self.direction is Direction.HIGHER else 1.0 - goodness
        return min(max(self.smallest + share * (self.largest - self.smallest), self.smallest), self.largest)


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
