"""The sum of rows' gradients, in float64: what order they are added in, and by how many processes, no longer shows.

Adam divides a gradient by its own size, so where rows nearly cancel out even the last bit of a float32 sum would decide
where a weight goes. Rounded once, to the parameter's own format, sums in any order are the same (but for one in 10^8).
"""

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor


class GradientSum:
    """`take` after each row's backward pass, `give` before the optimizer's step. P = the adapter's parameters, all in one."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = list(parameters.values())
        ends = [0]
        for parameter in self._parameters:
            ends.append(ends[-1] + parameter.numel())
        self._places = [slice(start, stop) for start, stop in pairwise(ends)]
        self.sum_P = torch.zeros(ends[-1], dtype=torch.float64, device=self._parameters[0].device)

    def take(self) -> None:
        """The parameters' gradients are added, and gone from them."""
        for parameter, place in zip(self._parameters, self._places, strict=True):
            if parameter.grad is not None:
                self.sum_P[place] += parameter.grad.flatten()
                parameter.grad = None

    def give(self) -> None:
        """The sums are the parameters' gradients."""
        for parameter, place in zip(self._parameters, self._places, strict=True):
            parameter.grad = self.sum_P[place].view_as(parameter).to(parameter.dtype)
