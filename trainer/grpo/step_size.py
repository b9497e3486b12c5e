"""How much a step trains: what every term of its loss is divided by, whichever row, order or process computes it.

Invariant: it is of the whole step, known before the first row, so that the rows' losses and gradients just add up.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.grpo.loss_settings import Normalization
from trainer.grpo.packing import PackedRow


@dataclass(frozen=True, slots=True)
class StepSize:
    """Example: two exchanges of 1 and 3 trained tokens -> num_tokens 4, num_exchanges 2. A token of the second has the
    weight 1/4 by tokens and 1/(3 * 2) by sequences.
    """

    num_tokens: int
    num_exchanges: int

    @classmethod
    def of(cls, rows: Iterable[PackedRow]) -> "StepSize":
        rows = list(rows)
        return cls(sum(len(row.target_T) for row in rows), sum(len(row.exchange_ids) for row in rows))

    def weights(self, row: PackedRow, normalization: Normalization) -> Tensor:
        """What each trained token of the row counts: shape [T]. Over all rows they sum to 1."""
        if normalization is Normalization.TOKENS:
            return torch.full_like(row.advantages_T, 1 / self.num_tokens)
        num_tokens_E = torch.bincount(row.owner_T)
        return 1 / (num_tokens_E[row.owner_T].to(row.advantages_T.dtype) * self.num_exchanges)
