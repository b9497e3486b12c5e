"""The ranks as one of them sees them: my rows, and the sums over all of us.

Invariant: every method is called by all ranks in the same order, or by none: each waits for the others.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

import torch
import torch.distributed as dist

from trainer.distributed.deal import ModelSize, balance_of, hands_of
from trainer.errors import BatchError
from trainer.gradients import GradientSum
from trainer.grpo.metrics import LossMetrics
from trainer.grpo.packing import PackedRow
from trainer.memory_plan import REMEDY
from trainer.peers import Deal


@dataclass(frozen=True, slots=True)
class Crew:
    rank: int
    num_ranks: int
    size: ModelSize
    is_sharded: bool

    @property
    def needs_equal_passes(self) -> bool:
        return self.is_sharded

    def deal(self, rows: Sequence[PackedRow]) -> Deal:
        loads = self.size.loads(rows)
        hands = hands_of(loads, self.num_ranks)
        most, mine = max(map(len, hands)), hands[self.rank]
        return Deal(
            rows=[rows[index] for index in mine],
            num_idle=most - len(mine) if self.is_sharded else 0,
            facts={
                "num_processes": self.num_ranks,
                "process_balance": round(balance_of(loads, hands), 4),
            },
        )

    def total(self, metrics: LossMetrics, gradients: GradientSum) -> LossMetrics:
        heard = gathered(asdict(metrics))
        if not all(heard):
            raise MemoryError("another process ran out of memory")
        dist.all_reduce(gradients.sum_P)
        return reduce(add, (LossMetrics(**each) for each in heard))

    def run_out(self) -> None:
        """The others hear it in `total`. Where the base is split they wait in the middle of a pass: then the attempt ends."""
        if self.is_sharded:
            raise BatchError(f"Memory ran out in one of {self.num_ranks} processes. {REMEDY}")
        gathered({})


def gathered(value: dict[str, Any]) -> list[dict[str, Any]]:
    """What each rank says, by rank: as JSON in bytes, since torch's own way of gathering objects pickles them."""
    said = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(lengths, torch.tensor([len(said)]))
    longest = int(max(lengths))
    padded = torch.nn.functional.pad(said, (0, longest - len(said)))
    heard = [torch.empty(longest, dtype=torch.uint8) for _ in lengths]
    dist.all_gather(heard, padded)
    return [
        json.loads(bytes(each[: int(length)].tolist())) for each, length in zip(heard, lengths, strict=True)
    ]
