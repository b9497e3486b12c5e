"""The sum of gradients: the same whatever the order and the split, and gone from the parameters when it was taken."""

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.gradients import GradientSum


def summed(rows: list[list[float]], order: list[int], num_processes: int) -> torch.Tensor:
    """Row i goes to process i mod n, in `order`; the processes' sums are added up."""
    sums = []
    for process in range(num_processes):
        parameter = torch.nn.Parameter(torch.zeros(2, 1))
        gradients = GradientSum({"lora": parameter})
        for index in (i for i in order if i % num_processes == process):
            parameter.grad = torch.tensor(rows[index]).view(2, 1)
            gradients.take()
            assert parameter.grad is None
        sums.append(gradients.sum_P)
    gradients.sum_P = torch.stack(sums).sum(0)
    gradients.give()
    assert parameter.grad is not None
    return parameter.grad


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_the_split_and_the_order_of_rows_change_no_bit(seed: int, num_processes: int) -> None:
    """In float32 they would: 1e8 + 1 - 1e8 is 0 there, and -1e8 + 1e8 + 1 is 1."""
    rng = random.Random(seed)
    rows = [[rng.uniform(-1, 1) * 10.0 ** rng.randint(-4, 8) for _ in range(2)] for _ in range(12)]
    order = list(range(12))
    once = summed(rows, order, 1)
    rng.shuffle(order)
    again = summed(rows, order, num_processes)
    exact = torch.tensor(rows, dtype=torch.float32).double().sum(0).float().view(2, 1)
    assert torch.allclose(once, exact, rtol=1e-6)
    assert torch.equal(once, again)


def test_a_parameter_that_a_row_does_not_reach_keeps_its_sum() -> None:
    first, second = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    gradients = GradientSum({"a": first, "b": second})
    first.grad, second.grad = torch.tensor([1.0]), torch.tensor([2.0])
    gradients.take()
    second.grad = torch.tensor([5.0])
    gradients.take()
    gradients.give()
    assert (float(first.grad), float(second.grad)) == (1.0, 7.0)  # type: ignore[arg-type]
