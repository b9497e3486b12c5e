"""What an update learns from, whatever the kind of its step."""

from dataclasses import dataclass
from uuid import UUID

from trainer.grpo.samples import Sample


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one prompt, the preferred one first: places in `Material.sides`."""

    comparison_id: UUID
    preferred: int
    other: int


@dataclass(frozen=True, slots=True)
class Material:
    """`samples`: of grpo and sft. Of dpo: `sides`, the samples of each side, and `pairs` of them.

    Example: A is better than B, B than C -> sides (A's, B's, C's), pairs (0, 1) and (1, 2).
    """

    samples: tuple[Sample, ...]
    sides: tuple[tuple[Sample, ...], ...] = ()
    pairs: tuple[Pair, ...] = ()
