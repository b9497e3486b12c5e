"""The stems that are open: computed once, kept while their rows come and go, differentiated when the last has gone.

Legend: L = tokens of a row, K = those of its stem and then its own, H = hidden size. Where rows are computed, a stem's
outputs (hidden states; keys and values of each layer) are leaves: the rows' backward passes leave gradients there, and
closing the stem sends them on into its own graph. Invariant: the sum is the gradient that one row with all tokens has.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from trainer.grpo.packing import PackedRow
from trainer.grpo.stems import Stem

KeysValues = dict[int, tuple[Tensor, Tensor]]  # by layer, each [1, heads, tokens, head size]


class PastStates:
    """What an attention layer asks of a cache: gives it the stems' keys and values, and keeps its own."""

    def __init__(self, stems: list["OpenStem"]) -> None:
        self._stems = stems
        self.own: KeysValues = {}

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_args: Any, **_told: Any
    ) -> tuple[Tensor, Tensor]:
        self.own[layer] = (keys, values)
        if not self._stems:
            return keys, values
        before = [stem.keys_values[layer] for stem in self._stems]
        return torch.cat([*(k for k, _ in before), keys], dim=-2), torch.cat(
            [*(v for _, v in before), values], dim=-2
        )

    def get_seq_length(self, _layer: int = 0) -> int:
        return sum(len(open_.stem.token_ids) for open_ in self._stems)


@dataclass(slots=True, eq=False)
class OpenStem:
    """`outputs` hang in the stem's graph; `leaves` are the same values, one for one, for the rows."""

    stem: Stem
    outputs: list[Tensor]
    hidden_SH: Tensor
    keys_values: KeysValues
    has_graph: bool
    leaves: list[Tensor] = field(default_factory=list)

    @classmethod
    def of(cls, stem: Stem, hidden_SH: Tensor, own: KeysValues) -> "OpenStem":
        outputs = [hidden_SH, *(each for pair in own.values() for each in pair)]
        leaves = [each.detach().requires_grad_(each.requires_grad) for each in outputs]
        pairs = zip(leaves[1::2], leaves[2::2], strict=True)
        keys_values = dict(zip(own, pairs, strict=True))
        return cls(stem, outputs, leaves[0], keys_values, torch.is_grad_enabled(), leaves)

    def differentiate(self) -> None:
        both = [
            (o, leaf.grad) for o, leaf in zip(self.outputs, self.leaves, strict=True) if leaf.grad is not None
        ]
        if both:
            outputs, gradients = zip(*both, strict=True)
            torch.autograd.backward(outputs, gradients)


class StemPath:
    """From the root's stem to that of the present row. `trunk` is the network without its head."""

    def __init__(self, trunk: Any, device: torch.device) -> None:
        self._trunk = trunk
        self._device = device
        self._open: list[OpenStem] = []

    def hidden(self, row: PackedRow) -> Tensor:
        """Hidden states of the stems and of the row, [K, H]."""
        self._enter(() if row.stem is None else row.stem.path)
        hidden_LH, _ = self._pass(row.token_ids_L, row.position_ids_L, row.mask_LK)
        return torch.cat([*(open_.hidden_SH for open_ in self._open), hidden_LH]) if self._open else hidden_LH

    def close(self) -> None:
        """The gradients that rows have left go on to the adapter."""
        self._enter(())

    def drop(self) -> None:
        """Without differentiating: the step has ended in an error, or nobody asked for gradients."""
        self._open.clear()

    def _enter(self, path: tuple[Stem, ...]) -> None:
        """A stem that was computed without a graph is of no use to rows that need one, nor the other way round."""
        while self._open and not (
            self._open[-1].stem in path and self._open[-1].has_graph == torch.is_grad_enabled()
        ):
            self._open.pop().differentiate()
        for stem in path[len(self._open) :]:
            positions = torch.arange(stem.start, stem.stop, device=self._device)
            mask = torch.arange(stem.stop, device=self._device) <= positions[:, None]
            ids = torch.tensor(stem.token_ids, device=self._device)
            self._open.append(OpenStem.of(stem, *self._pass(ids, positions, mask)))

    def _pass(
        self, token_ids_L: Tensor, position_ids_L: Tensor, mask_LK: Tensor
    ) -> tuple[Tensor, KeysValues]:
        """`use_cache=False` matters: with a cache of its own, a packed row silently gets wrong gradients."""
        past = PastStates(self._open)
        hidden_LH = self._trunk(
            input_ids=token_ids_L[None],
            position_ids=position_ids_L[None],
            attention_mask=mask_LK[None, None],
            past_key_values=past,
            use_cache=False,
        ).last_hidden_state[0]
        return hidden_LH, past.own
