"""Packed rows: samples side by side in one row without padding, every common prefix standing once.

Legend: L = tokens of a row, T = trained (sampled) tokens of a row. The samples are sorted, so a sample shares its
longest prefix with the one before it: together they are a tree, and a token sees its ancestors only.
Invariant: a row gives each token exactly the context, position and loss terms that it has in a sequence alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import torch
from torch import Tensor

from trainer.grpo.prefixes import order_of, shared_prefix
from trainer.grpo.samples import Sample


@dataclass(frozen=True, slots=True)
class PackedRow:
    """Example: samples (5, 6, 7) and (5, 6, 9, 2), sampled from position 2 on, become

        token_ids_L     5  6  7  9  2       mask_LL  1 . . . .
        position_ids_L  0  1  2  2  3                1 1 . . .
        source_T        1  1  3                      1 1 1 . .
        target_T        7  9  2                      1 1 . 1 .
                                                     1 1 . 1 1

    `source_T[t]` is the position whose hidden state predicts `target_T[t]`; `owner_T[t]` indexes `exchange_ids`.
    """

    token_ids_L: Tensor
    position_ids_L: Tensor
    mask_LL: Tensor
    source_T: Tensor
    target_T: Tensor
    sampling_logprobs_T: Tensor
    temperatures_T: Tensor
    advantages_T: Tensor
    forced_T: Tensor  # the only token that could be drawn there
    owner_T: Tensor
    exchange_ids: tuple[UUID, ...]
    num_unpacked_tokens: int  # what the same samples would cost one by one


def pack(samples: Sequence[Sample], row_tokens: int) -> list[PackedRow]:
    """Rows of at most `row_tokens` tokens; only a single sample that is longer gets a longer row of its own."""
    rows: list[list[Sample]] = []
    length, before = 0, tuple[int, ...]()
    for sample in sorted(samples, key=order_of):
        new = len(sample.token_ids) - shared_prefix(before, sample.token_ids)
        if not rows or length + new > row_tokens:
            rows.append([])
            length, new = 0, len(sample.token_ids)
        rows[-1].append(sample)
        length, before = length + new, sample.token_ids
    return [_packed(row) for row in rows]


@dataclass(slots=True)
class _Draft:
    """A row while it grows: plain lists, made into tensors once."""

    token_ids: list[int] = field(default_factory=list)
    position_ids: list[int] = field(default_factory=list)
    blocks: list[tuple[int, int, list[int]]] = field(default_factory=list)  # start, stop, ancestors
    terms: list[tuple[int, int, float, float, float, bool, int]] = field(default_factory=list)
    exchange_ids: list[UUID] = field(default_factory=list)


def _packed(samples: Sequence[Sample]) -> PackedRow:
    draft, path, before = _Draft(), list[int](), tuple[int, ...]()
    for sample in samples:
        path = _add_tokens(draft, sample.token_ids, path[: shared_prefix(before, sample.token_ids)])
        _add_terms(draft, sample, path)
        before = sample.token_ids
    return _tensors(draft, sum(len(sample.token_ids) for sample in samples))


def _add_tokens(draft: _Draft, token_ids: Sequence[int], ancestors: list[int]) -> list[int]:
    """Append what the row does not hold yet; returns where each token of the sample stands in the row."""
    start, depth = len(draft.token_ids), len(ancestors)
    draft.token_ids += token_ids[depth:]
    draft.position_ids += range(depth, len(token_ids))
    draft.blocks.append((start, len(draft.token_ids), ancestors))
    return [*ancestors, *range(start, len(draft.token_ids))]


def _add_terms(draft: _Draft, sample: Sample, path: Sequence[int]) -> None:
    for span in sample.spans:
        owner = len(draft.exchange_ids)
        draft.exchange_ids.append(span.exchange_id)
        for index, sampling_logprob in enumerate(span.sampling_logprobs, start=span.start):
            target = sample.token_ids[index]
            is_forced = span.is_reshaped and sampling_logprob == 0
            draft.terms.append(
                (
                    path[index - 1],
                    target,
                    sampling_logprob,
                    span.temperature,
                    span.advantage,
                    is_forced,
                    owner,
                )
            )


def _tensors(draft: _Draft, num_unpacked_tokens: int) -> PackedRow:
    length = len(draft.token_ids)
    mask_LL = torch.zeros(length, length, dtype=torch.bool)
    for start, stop, ancestors in draft.blocks:
        mask_LL[start:stop, ancestors] = True
        mask_LL[start:stop, start:stop] = torch.ones(stop - start, stop - start, dtype=torch.bool).tril()
    source, target, logprobs, temperatures, advantages, forced, owner = zip(*draft.terms, strict=True)
    return PackedRow(
        token_ids_L=torch.tensor(draft.token_ids),
        position_ids_L=torch.tensor(draft.position_ids),
        mask_LL=mask_LL,
        source_T=torch.tensor(source),
        target_T=torch.tensor(target),
        sampling_logprobs_T=torch.tensor(logprobs, dtype=torch.float32),
        temperatures_T=torch.tensor(temperatures, dtype=torch.float32),
        advantages_T=torch.tensor(advantages, dtype=torch.float32),
        forced_T=torch.tensor(forced),
        owner_T=torch.tensor(owner),
        exchange_ids=tuple(draft.exchange_ids),
        num_unpacked_tokens=num_unpacked_tokens,
    )
