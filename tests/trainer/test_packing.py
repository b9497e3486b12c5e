"""Laws of packed rows: no padding, each common prefix once, and each token sees just its own past."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.tiny import random_samples, turn
from trainer.grpo.packing import pack
from trainer.grpo.prefixes import num_packed_tokens
from trainer.grpo.samples import merge_turns


def context_of(row, position: int) -> list[int]:
    """The tokens that a position sees, by their position ids."""
    seen = row.mask_LL[position].nonzero()[:, 0]
    seen = seen[row.position_ids_L[seen].argsort()]
    assert row.position_ids_L[seen].tolist() == list(range(len(seen)))
    return row.token_ids_L[seen].tolist()


@given(st.integers(0, 10_000), st.sampled_from([1, 13, 40, 10_000]))
def test_each_trained_token_is_predicted_from_exactly_its_own_past(seed, row_tokens) -> None:
    samples = random_samples(seed)
    expected = sorted(
        (str(span.exchange_id), list(sample.token_ids[:index]), sample.token_ids[index], span.advantage)
        for sample in samples
        for span in sample.spans
        for index in range(span.start, span.stop)
    )
    found = sorted(
        (str(row.exchange_ids[owner]), context_of(row, source), target, advantage)
        for row in pack(samples, row_tokens)
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


@given(st.integers(0, 10_000), st.sampled_from([25, 40, 80]))
def test_no_row_is_longer_than_asked_but_for_a_single_sample(seed, row_tokens) -> None:
    samples = random_samples(seed)
    for row in pack(samples, row_tokens):
        longest = row.num_unpacked_tokens if len(set(row.owner_T.tolist())) <= 2 else 0
        assert len(row.token_ids_L) <= max(row_tokens, longest)


def test_the_common_prompt_of_a_group_stands_once() -> None:
    samples = [sample for n in range(8) for sample in merge_turns([turn(n, [5] * 50, [10 + n, 2])])]
    (row,) = pack(samples, 10_000)
    assert len(row.token_ids_L) == 50 + 8 * 2 == num_packed_tokens(samples)
    assert row.num_unpacked_tokens == 8 * 52


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
    assert row.mask_LL.int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 0, 1, 1],
    ]
