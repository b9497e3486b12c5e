"""Common prefixes of samples: what they cost together, counted without a tensor, so that a plan needs no torch.

Invariant: samples in `order_of` stand beside the one with which they share most, so neighbours tell the whole tree.
"""

from collections.abc import Sequence
from uuid import UUID

from trainer.grpo.samples import Sample


def num_packed_tokens(samples: Sequence[Sample]) -> int:
    """Tokens that have to be computed for these samples: nodes of their prefix tree."""
    total, before = 0, tuple[int, ...]()
    for sample in sorted(samples, key=order_of):
        total += len(sample.token_ids) - shared_prefix(before, sample.token_ids)
        before = sample.token_ids
    return total


def shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))


def order_of(sample: Sample) -> tuple[tuple[int, ...], UUID]:
    return sample.token_ids, sample.spans[0].exchange_id
