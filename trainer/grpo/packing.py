"""Packed rows: samples side by side in one row without padding, every common prefix standing once.

Legend: L = tokens of a row, K = tokens of its stem (trainer/grpo/stems.py) and then its own, T = trained (sampled) tokens
of a row. The samples are sorted, so a sample shares its longest prefix with the one before it: together they are a tree,
and a token sees its ancestors only.
Invariant: a row gives each token exactly the context, position and loss terms that it has in a sequence alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import torch
from torch import Tensor

from trainer.grpo.prefixes import shared_prefix
from trainer.grpo.samples import Sample
from trainer.grpo.stems import MIN_SAVED, PlannedRow, Stem, plan_rows


@dataclass(frozen=True, slots=True)
class PackedRow:
    """Example: samples (5, 6, 7) and (5, 6, 9, 2), sampled from position 2 on, become

        token_ids_L     5  6  7  9  2       mask_LK  1 . . . .
        position_ids_L  0  1  2  2  3                1 1 . . .
        source_T        1  1  3                      1 1 1 . .
        target_T        7  9  2                      1 1 . 1 .
                                                     1 1 . 1 1

    and on a stem (5, 6):

        token_ids_L     7  9  2             mask_LK  1 1 1 . .
        position_ids_L  2  2  3                      1 1 . 1 .
        source_T, target_T as before                 1 1 . 1 1

    `source_T[t]` is the place, of K, whose hidden state predicts `target_T[t]`; `owner_T[t]` indexes `exchange_ids`.
    """

    token_ids_L: Tensor
    position_ids_L: Tensor
    mask_LK: Tensor
    source_T: Tensor
    target_T: Tensor
    sampling_logprobs_T: Tensor
    temperatures_T: Tensor
    advantages_T: Tensor
    forced_T: Tensor  # the only token that could be drawn there
    owner_T: Tensor
    exchange_ids: tuple[UUID, ...]
    num_unpacked_tokens: int  # what the same samples would cost one by one
    stem: Stem | None = None


def pack(samples: Sequence[Sample], row_tokens: int, min_saved: int = MIN_SAVED) -> list[PackedRow]:
    """Rows of at most `row_tokens` tokens; only a single sample that is longer gets a longer row of its own."""
    return [_packed(row) for row in plan_rows(samples, row_tokens, min_saved)]


def num_forwarded_tokens(rows: Sequence[PackedRow]) -> int:
    """Tokens that are computed: of the rows, and of each stem once."""
    stems = {stem for row in rows if row.stem is not None for stem in row.stem.path}
    return sum(len(stem.token_ids) for stem in stems) + sum(len(row.token_ids_L) for row in rows)


@dataclass(slots=True)
class _Draft:
    """A row while it grows: plain lists, made into tensors once. Places count from the beginning of the stem."""

    stem: Stem | None
    depth: int
    token_ids: list[int] = field(default_factory=list)
    position_ids: list[int] = field(default_factory=list)
    blocks: list[tuple[int, int, list[int]]] = field(default_factory=list)  # start, stop, ancestors
    terms: list[tuple[int, int, float, float, float, bool, int]] = field(default_factory=list)
    exchange_ids: list[UUID] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return self.depth + len(self.token_ids)


def _packed(row: PlannedRow) -> PackedRow:
    draft = _Draft(row.stem, 0 if row.stem is None else row.stem.stop)
    path, before = list(range(draft.depth)), row.samples[0].token_ids[: draft.depth]
    for sample in row.samples:
        path = _add_tokens(draft, sample.token_ids, path[: shared_prefix(before, sample.token_ids)])
        _add_terms(draft, sample, path)
        before = sample.token_ids
    return _tensors(draft, sum(len(sample.token_ids) for sample in row.samples))


def _add_tokens(draft: _Draft, token_ids: Sequence[int], ancestors: list[int]) -> list[int]:
    """Append what the row does not hold yet; returns the place of each token of the sample."""
    start, depth = draft.stop, len(ancestors)
    draft.token_ids += token_ids[depth:]
    draft.position_ids += range(depth, len(token_ids))
    draft.blocks.append((start, draft.stop, ancestors))
    return [*ancestors, *range(start, draft.stop)]


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
    mask_LK = torch.zeros(len(draft.token_ids), draft.stop, dtype=torch.bool)
    for start, stop, ancestors in draft.blocks:
        mine = slice(start - draft.depth, stop - draft.depth)
        mask_LK[mine, ancestors] = True
        mask_LK[mine, start:stop] = torch.ones(stop - start, stop - start, dtype=torch.bool).tril()
    source, target, logprobs, temperatures, advantages, forced, owner = zip(*draft.terms, strict=True)
    return PackedRow(
        token_ids_L=torch.tensor(draft.token_ids),
        position_ids_L=torch.tensor(draft.position_ids),
        mask_LK=mask_LK,
        source_T=torch.tensor(source),
        target_T=torch.tensor(target),
        sampling_logprobs_T=torch.tensor(logprobs, dtype=torch.float32),
        temperatures_T=torch.tensor(temperatures, dtype=torch.float32),
        advantages_T=torch.tensor(advantages, dtype=torch.float32),
        forced_T=torch.tensor(forced),
        owner_T=torch.tensor(owner),
        exchange_ids=tuple(draft.exchange_ids),
        num_unpacked_tokens=num_unpacked_tokens,
        stem=draft.stem,
    )
