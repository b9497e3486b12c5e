"""Who computes which rows: all of them once, evenly, and the same whoever asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.tiny import random_samples
from trainer.distributed.crew import Crew
from trainer.distributed.deal import Load, ModelSize, balance_of, hands_of
from trainer.grpo.packing import pack

SIZE = ModelSize(num_trunk=1_000, num_head=64 * 32, attention_width=64)
costs = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=40)


@given(costs, st.integers(1, 8))
def test_each_row_is_dealt_once_and_no_rank_has_more_than_its_share_and_a_row(costs, num_ranks) -> None:
    hands = hands_of(list(map(Load, costs)), num_ranks)
    assert sorted(index for hand in hands for index in hand) == list(range(len(costs)))
    most = max(sum(costs[index] for index in hand) for hand in hands)
    assert most <= sum(costs) / num_ranks + max(costs) + 1e-6


def test_the_worked_example_of_the_docstring() -> None:
    loads = [Load(5), Load(3), Load(3), Load(1)]
    hands = hands_of(loads, 2)
    assert hands == [[0, 3], [1, 2]]
    assert balance_of(loads, hands) == 1.0
    assert balance_of(loads, [[0, 1, 2, 3], []]) == 0.5


def test_rows_of_a_stem_stay_together_where_that_takes_no_longer() -> None:
    """Apart each rank would compute both stems: 2 + 2 + 2 rows of 1, against 2 + 2."""
    loads = [Load(1, {"a": 2}), Load(1, {"a": 2}), Load(1, {"b": 2}), Load(1, {"b": 2})]
    hands = hands_of(loads, 2)
    assert hands == [[0, 1], [2, 3]]
    assert balance_of(loads, hands) == 1.0


def test_rows_of_the_only_stem_are_parted_and_it_is_computed_by_each() -> None:
    loads = [Load(9, {"a": 2, "aa": 1})] * 4
    hands = hands_of(loads, 2)
    assert sorted(map(len, hands)) == [2, 2]
    assert balance_of(loads, hands) == (4 * 9 + 3) / (2 * (2 * 9 + 3))


def test_a_long_row_costs_more_than_its_tokens_say_and_a_trained_token_more_than_a_prompts() -> None:
    assert SIZE.cost(200, 200, 10) > 2 * SIZE.cost(100, 100, 5)
    assert SIZE.cost(100, 100, 6) - SIZE.cost(100, 100, 5) == 4 * 64 * 32


def test_the_models_size_counts_the_tied_head_once(model) -> None:
    """The tiny Llama: layers, the last norm and the adapter; 64 * 32 in embedding and head, which are one."""
    size = ModelSize.of(model)
    parameters = {id(p): p.numel() for p in model.peft.parameters()}
    assert (size.num_head, size.attention_width) == (64 * 32, 2 * 32)
    assert size.num_trunk == sum(parameters.values()) - 64 * 32


@pytest.mark.parametrize("is_sharded", [False, True])
def test_ranks_deal_alike_and_those_with_fewer_rows_pass_idly_only_where_the_base_is_sharded(
    is_sharded,
) -> None:
    rows = pack(random_samples(3, 5), 12)
    deals = [Crew(rank, 3, SIZE, is_sharded).deal(rows) for rank in range(3)]
    assert sorted(id(row) for deal in deals for row in deal.rows) == sorted(map(id, rows))
    passes = {len(deal.rows) + deal.num_idle for deal in deals}
    assert (len(passes) == 1) is is_sharded or len({len(deal.rows) for deal in deals}) == 1
    assert len({str(deal.facts) for deal in deals}) == 1
    assert deals[0].facts["num_processes"] == 3
