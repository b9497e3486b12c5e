"""What is said about a step's loss: sums that add up over rows, so the split into rows never changes a figure."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.grpo.packing import PackedRow


@dataclass(frozen=True, slots=True)
class LossMetrics:
    """Sums over trained tokens. Example: two tokens of ratio 1.0 and 3.2 with cap 3: num_tokens 2, ratio_sum 4.2,
    ratio_max 3.2, num_clipped 1. `summary()` divides.
    """

    loss: float = 0.0
    num_tokens: int = 0
    num_spans: int = 0
    num_clipped: int = 0
    num_masked: int = 0
    num_masked_spans: int = 0
    ratio_sum: float = 0.0
    ratio_max: float = 0.0
    absolute_sum: float = 0.0
    kl_sum: float = 0.0
    entropy_sum: float = 0.0

    @classmethod
    def of(
        cls,
        loss: Tensor,
        row: PackedRow,
        log_ratio_T: Tensor,
        num_clipped: int,
        masked_T: Tensor,
        entropies_T: Tensor | None,
    ) -> "LossMetrics":
        ratio_T = log_ratio_T.exp()
        return cls(
            loss=float(loss.detach()),
            num_tokens=len(ratio_T),
            num_spans=len(row.exchange_ids),
            num_clipped=num_clipped,
            num_masked=int(masked_T.sum()),
            num_masked_spans=int(torch.unique(row.owner_T[masked_T]).numel()),
            ratio_sum=float(ratio_T.sum()),
            ratio_max=float(ratio_T.max()),
            absolute_sum=float(log_ratio_T.abs().sum()),
            kl_sum=float((ratio_T - 1 - log_ratio_T).sum()),  # k3 of the sampling policy to the present one
            entropy_sum=0.0 if entropies_T is None else float(entropies_T.sum()),
        )

    def __add__(self, other: "LossMetrics") -> "LossMetrics":
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        sums["ratio_max"] = max(self.ratio_max, other.ratio_max)
        return LossMetrics(**sums)

    def summary(self) -> dict[str, float]:
        """The figures of `training_steps.metrics`, per trained token."""
        tokens, spans = max(self.num_tokens, 1), max(self.num_spans, 1)
        return {
            "loss": self.loss,
            "ratio_mean": self.ratio_sum / tokens,
            "ratio_max": self.ratio_max,
            "clipped_fraction": self.num_clipped / tokens,
            "masked_fraction": self.num_masked / tokens,
            "masked_exchange_fraction": self.num_masked_spans / spans,
            "logprob_difference": self.absolute_sum / tokens,
            "approximate_kl": self.kl_sum / tokens,
            "entropy": self.entropy_sum / tokens,
        }
