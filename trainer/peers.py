"""The processes that compute one step together, as one of them sees the others: which rows are mine, what do we sum up to.

Invariant (I9): whoever computes a row, the sums over all rows are the same, and all go on with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainer.gradients import GradientSum
from trainer.grpo.metrics import LossMetrics
from trainer.grpo.packing import PackedRow


@dataclass(frozen=True, slots=True)
class Deal:
    """`rows`: mine. `num_idle`: so often I compute a row that counts nothing, because others have more rows and every
    pass needs all of us (a sharded base). `facts`: what is said about it in the step's metrics.
    """

    rows: Sequence[PackedRow]
    num_idle: int
    facts: dict[str, Any]


class Peers(Protocol):
    @property
    def needs_equal_passes(self) -> bool:
        """Whether each pass is made by all at once: then rows hang on no stems."""

    def deal(self, rows: Sequence[PackedRow]) -> Deal: ...

    def total(self, metrics: LossMetrics, gradients: GradientSum) -> LossMetrics:
        """The metrics of all rows; the gradients become those of all rows. Raises MemoryError where a peer ran out of it,
        so that all cut the step anew.
        """

    def run_out(self) -> None:
        """Instead of `total`: memory ran out here. Whoever calls it raises what it got."""


class Alone:
    """One process has all rows."""

    needs_equal_passes = False

    def deal(self, rows: Sequence[PackedRow]) -> Deal:
        return Deal(rows, 0, {})

    def total(self, metrics: LossMetrics, gradients: GradientSum) -> LossMetrics:  # noqa: ARG002 - one has all
        return metrics

    def run_out(self) -> None:
        """There is nobody to tell."""


ALONE = Alone()
