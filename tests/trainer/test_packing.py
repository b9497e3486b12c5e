"""Laws of packed rows: no padding, each common prefix once, and each token sees just its own past."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.tiny import random_samples, turn
from trainer.grpo.packing import num_forwarded_tokens, pack
from trainer.grpo.prefixes import num_packed_tokens
from trainer.grpo.samples import merge_turns


def context_of(row, place: int) -> list[int]:
    """The tokens that a place of K sees, by their position ids."""
    depth = 0 if row.stem is None else row.stem.stop
    before = [] if row.stem is None else [token for stem in row.stem.path for token in stem.token_ids]
    if place < depth:
        return before[: place + 1]
    ids = torch.tensor([*before, *row.token_ids_L.tolist()])
    positions = torch.cat([torch.arange(depth), row.position_ids_L])
    seen = row.mask_LK[place - depth].nonzero()[:, 0]
    seen = seen[positions[seen].argsort()]
    assert positions[seen].tolist() == list(range(len(seen)))
    return ids[seen].tolist()


@given(st.integers(0, 10_000), st.sampled_from([1, 13, 40, 10_000]), st.sampled_from([1, 8, 10_000]))
def test_each_trained_token_is_predicted_from_exactly_its_own_past(seed, row_tokens, min_saved) -> None:
    samples = random_samples(seed)
    expected = sorted(
        (str(span.exchange_id), list(sample.token_ids[:index]), sample.token_ids[index], span.advantage)
        for sample in samples
        for span in sample.spans
        for index in range(span.start, span.stop)
    )
    found = sorted(
        (str(row.exchange_ids[owner]), context_of(row, source), target, advantage)
        for row in pack(samples, row_tokens, min_saved)
        for source, target, owner, advantage in zip(
            row.source_T.tolist(),
            row.target_T.tolist(),
            row.owner_T.tolist(),
            row.advantages_T.tolist(),
            strict=True,
        )
    )
    assert [item[:3] for item in found] == [item[:3] for item in expected]
    torch.testing.assert_close(
        torch.tensor([item[3] for item in found]), torch.tensor([item[3] for item in expected])
    )


@given(st.integers(0, 10_000), st.sampled_from([25, 40, 80]), st.sampled_from([1, 10_000]))
def test_no_row_is_longer_than_asked_but_for_a_single_sample(seed, row_tokens, min_saved) -> None:
    samples = random_samples(seed)
    for row in pack(samples, row_tokens, min_saved):
        longest = row.num_unpacked_tokens if len(set(row.owner_T.tolist())) <= 2 else 0
        assert len(row.token_ids_L) <= max(row_tokens, longest)


def test_the_common_prompt_of_a_group_stands_once() -> None:
    samples = [sample for n in range(8) for sample in merge_turns([turn(n, [5] * 50, [10 + n, 2])])]
    (row,) = pack(samples, 10_000)
    assert len(row.token_ids_L) == 50 + 8 * 2 == num_packed_tokens(samples)
    assert row.num_unpacked_tokens == 8 * 52


@given(st.integers(0, 10_000), st.sampled_from([1, 7, 20, 60]))
def test_with_a_stem_wherever_it_saves_a_token_nothing_is_computed_twice(seed, row_tokens) -> None:
    """But for the last token of a sample that others go on from: each row has one of its own."""
    samples = random_samples(seed)
    repeated = num_forwarded_tokens(pack(samples, row_tokens, 1)) - num_packed_tokens(samples)
    assert 0 <= repeated <= len(samples)


def test_a_group_that_is_too_long_for_a_row_hangs_on_its_prompt() -> None:
    """Two levels: a system prompt of 40 for all, and 60 more for one group."""
    system, prompt = [5] * 40, [6] * 60
    turns = [turn(n, system + prompt, [10 + n] * 30) for n in range(4)]
    turns += [turn(9, system, [20] * 30)]
    rows = pack([sample for each in turns for sample in merge_turns([each])], 64)
    assert num_forwarded_tokens(rows) == 40 + 60 + 5 * 30
    assert [len(row.token_ids_L) for row in rows] == [60, 60, 30]
    assert [[len(stem.token_ids) for stem in row.stem.path] for row in rows if row.stem] == [
        [40, 60],
        [40, 60],
        [40],
    ]
    assert len({stem for row in rows if row.stem for stem in row.stem.path}) == 2


def test_the_worked_example_with_a_stem() -> None:
    samples = [s for n, ids in enumerate(([7], [9, 2], [9, 3])) for s in merge_turns([turn(n, [5, 6], ids)])]
    first, second = pack(samples, 3, 1)
    assert first.stem is second.stem is not None
    assert (first.stem.token_ids, first.token_ids_L.tolist()) == ((5, 6), [7])
    assert second.token_ids_L.tolist() == [9, 2, 3]
    assert second.position_ids_L.tolist() == [2, 3, 3]
    assert second.source_T.tolist() == [1, 2, 1, 2]
    assert second.mask_LK.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 0, 1]]


def test_equal_completions_share_their_tokens_and_keep_their_own_terms() -> None:
    samples = [sample for n in range(3) for sample in merge_turns([turn(n, [5, 6], [7, 2], advantage=n)])]
    (row,) = pack(samples, 10_000)
    assert row.token_ids_L.tolist() == [5, 6, 7, 2]
    assert row.advantages_T.tolist() == [0, 0, 1, 1, 2, 2]


def test_the_worked_example_of_the_docstring() -> None:
    samples = merge_turns([turn(1, [5, 6], [7])]) + merge_turns([turn(2, [5, 6], [9, 2])])
    (row,) = pack(samples, 100)
    assert row.token_ids_L.tolist() == [5, 6, 7, 9, 2]
    assert row.position_ids_L.tolist() == [0, 1, 2, 2, 3]
    assert row.source_T.tolist() == [1, 1, 3]
    assert row.target_T.tolist() == [7, 9, 2]
    assert row.mask_LK.int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 0, 1, 1],
    ]
