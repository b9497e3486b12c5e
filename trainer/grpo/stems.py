"""Which samples make a row, and which prefixes are computed once for several rows. Counted without a tensor.

A group that is too long for one row is cut into rows that hang on a *stem*: the prefix that they share, computed once, kept
with its keys and values while its rows come and go, and only then differentiated. So the rows' length decides how much
memory is needed, and never how much is computed twice.
Invariant: rows that hang on one stem, or on stems that hang on it, stand side by side.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainer.grpo.prefixes import order_of, shared_prefix
from trainer.grpo.samples import Sample

MIN_SAVED = 32  # tokens; a stem is a pass of its own, which has to be worth it
GPU_MIN_SAVED = 2_048  # what a GPU computes while a short pass is being launched
NO_STEMS = sys.maxsize  # as many tokens are never saved


@dataclass(frozen=True, slots=True, eq=False)
class Stem:
    """Tokens that several rows begin with, after those of its parent. Two stems are the same only if they are one object."""

    token_ids: tuple[int, ...]
    parent: "Stem | None" = None

    @property
    def start(self) -> int:
        return 0 if self.parent is None else self.parent.stop

    @property
    def stop(self) -> int:
        return self.start + len(self.token_ids)

    @property
    def path(self) -> tuple["Stem", ...]:
        """From the root to this one."""
        return (self,) if self.parent is None else (*self.parent.path, self)


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """Example: samples (5, 6, 7) and (5, 6, 9, 2) on a stem (5, 6): the row itself holds 7, 9, 2."""

    samples: tuple[Sample, ...]
    stem: Stem | None


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Sorted samples; `shared[i]` = length of the common prefix of i - 1 and i."""

    samples: tuple[Sample, ...]
    shared: tuple[int, ...]

    def common(self, place: range) -> int:
        """Length of the prefix that all of them share."""
        return min((self.shared[i] for i in place[1:]), default=len(self.samples[place.start].token_ids))

    def num_tokens(self, place: range, depth: int) -> int:
        """Tokens that a row of them holds if its first `depth` are in its stem."""
        lengths = sum(len(self.samples[i].token_ids) for i in place)
        return lengths - sum(self.shared[i] for i in place[1:]) - depth

    def branches(self, place: range, common: int) -> Iterator[range]:
        """Runs of samples that share more than `common`."""
        cuts = [place.start, *(i for i in place[1:] if self.shared[i] <= common), place.stop]
        return (range(start, stop) for start, stop in pairwise(cuts))


def min_saved_on(*, is_gpu: bool) -> int:
    return GPU_MIN_SAVED if is_gpu else MIN_SAVED


def plan_rows(samples: Sequence[Sample], row_tokens: int, min_saved: int = MIN_SAVED) -> list[PlannedRow]:
    """Rows of at most `row_tokens` tokens without their stem's; only a single sample that is longer gets a longer row."""
    ordered = tuple(sorted(samples, key=order_of))
    shared = (0, *(shared_prefix(a.token_ids, b.token_ids) for a, b in pairwise(ordered)))
    return _plan(_Neighbours(ordered, shared), range(len(ordered)), None, row_tokens, min_saved)


def num_own_tokens(row: PlannedRow) -> int:
    """Tokens of a row without its stem's."""
    ids = [sample.token_ids for sample in row.samples]
    shared = sum(shared_prefix(a, b) for a, b in pairwise(ids))
    return sum(map(len, ids)) - shared - _depth(row.stem)


def _plan(
    all_: _Neighbours, place: range, stem: Stem | None, row_tokens: int, min_saved: int
) -> list[PlannedRow]:
    if not place:
        return []
    size = all_.num_tokens(place, _depth(stem))
    if len(place) == 1 or size <= row_tokens:
        return [PlannedRow(all_.samples[place.start : place.stop], stem)]
    common = all_.common(place)
    stem = _longer(all_.samples[place.start].token_ids, common, stem, -(-size // row_tokens), min_saved)
    rows, open_ = list[PlannedRow](), range(place.start, place.start)
    for branch in all_.branches(place, common):
        joined = range(open_.start, branch.stop)
        if all_.num_tokens(joined, _depth(stem)) <= row_tokens:
            open_ = joined
            continue
        rows += _plan(all_, open_, stem, row_tokens, min_saved)
        open_ = branch
        if all_.num_tokens(branch, _depth(stem)) > row_tokens:
            rows += _plan(all_, branch, stem, row_tokens, min_saved)
            open_ = range(branch.stop, branch.stop)
    return rows + _plan(all_, open_, stem, row_tokens, min_saved)


def _longer(
    token_ids: tuple[int, ...], common: int, stem: Stem | None, num_rows: int, min_saved: int
) -> Stem | None:
    """A stem up to the common prefix if that is worth a pass. It never holds a sample whole: each row has a token."""
    stop = min(common, len(token_ids) - 1)
    new = stop - _depth(stem)
    return Stem(token_ids[_depth(stem) : stop], stem) if new * (num_rows - 1) >= max(min_saved, 1) else stem


def _depth(stem: Stem | None) -> int:
    return 0 if stem is None else stem.stop
