"""What is said about a step's loss: sums that add up over rows and processes, so no split changes a figure."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.grpo.packing import PackedRow
from trainer.grpo.ratios import sequence_means

TAIL = 2.0  # a ratio above it, or below 1 / it, is in a tail
LARGEST_LOG_RATIO = 20.0  # a ratio is shown as at most e^20: what is stored has to be finite
MAXIMA = ("ratio_max", "inverse_ratio_max", "sequence_ratio_max")


@dataclass(frozen=True, slots=True)
class LossMetrics:
    """Sums over trained tokens, masked ones too; MAXIMA are maxima. Example: two tokens of ratio 1.0 and 3.2 with cap 3:
    num_tokens 2, ratio_sum 4.2, ratio_max 3.2, num_high 1, num_clipped 1. `summary()` divides.
    """

    loss: float = 0.0
    num_tokens: int = 0
    num_spans: int = 0
    num_clipped: int = 0
    num_masked: int = 0
    num_high: int = 0
    num_low: int = 0
    num_clipped_spans: int = 0  # exchanges of which a token was clipped or capped
    num_masked_spans: int = 0
    num_bounded_spans: int = 0  # either
    num_base_tokens: int = 0  # of which base_kl_sum is
    ratio_sum: float = 0.0
    sequence_ratio_sum: float = 0.0
    absolute_sum: float = 0.0
    kl_sum: float = 0.0
    base_kl_sum: float = 0.0
    entropy_sum: float = 0.0
    policy_logprob_sum: float = 0.0
    ratio_max: float = 0.0
    inverse_ratio_max: float = 0.0
    sequence_ratio_max: float = 0.0

    @classmethod
    def of(
        cls,
        loss: Tensor,
        row: PackedRow,
        policy_logprobs_T: Tensor,
        log_ratio_T: Tensor,
        trusted_T: Tensor,
        clipped_T: Tensor,
        entropies_T: Tensor | None,
        base_kl_U: Tensor | None,
    ) -> "LossMetrics":
        """All figures leave the device together."""
        num_exchanges = len(row.exchange_ids)
        log_T = log_ratio_T.double().clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        ratio_T, masked_T = log_T.exp(), ~trusted_T
        sequence_ratio_E = sequence_means(log_T, row.owner_T, num_exchanges).exp()
        none = log_T.new_zeros(())
        found: dict[str, Tensor] = {
            "num_clipped": clipped_T.sum(),
            "num_masked": masked_T.sum(),
            "num_high": (ratio_T > TAIL).sum(),
            "num_low": (ratio_T < 1 / TAIL).sum(),
            "num_clipped_spans": _num_spans(row, clipped_T),
            "num_masked_spans": _num_spans(row, masked_T),
            "num_bounded_spans": _num_spans(row, clipped_T | masked_T),
            "loss": loss.detach(),
            "ratio_sum": ratio_T.sum(),
            "sequence_ratio_sum": sequence_ratio_E.sum(),
            "absolute_sum": log_T.abs().sum(),
            "kl_sum": (ratio_T - 1 - log_T).sum(),  # k3 of the sampling policy to the present one
            "base_kl_sum": none if base_kl_U is None else base_kl_U.detach().sum(),
            "entropy_sum": none if entropies_T is None else entropies_T.detach().sum(),
            "policy_logprob_sum": policy_logprobs_T.detach().sum(),
            "ratio_max": ratio_T.max(),
            "inverse_ratio_max": (-log_T).exp().max(),
            "sequence_ratio_max": sequence_ratio_E.max(),
        }
        values = torch.stack([value.double() for value in found.values()]).tolist()
        sums = {n: int(v) if n.startswith("num_") else v for n, v in zip(found, values, strict=True)}
        return cls(
            num_tokens=len(log_T),
            num_spans=num_exchanges,
            num_base_tokens=0 if base_kl_U is None else len(base_kl_U),
            **sums,
        )

    def __add__(self, other: "LossMetrics") -> "LossMetrics":
        added = {
            name: (max if name in MAXIMA else sum)((getattr(self, name), getattr(other, name)))
            for name in self.__slots__
        }
        return LossMetrics(**added)

    def summary(self) -> dict[str, float]:
        """The figures of `training_steps.metrics`: per trained token, or per exchange where the name says so."""
        tokens, spans = max(self.num_tokens, 1), max(self.num_spans, 1)
        base = {"base_kl": self.base_kl_sum / self.num_base_tokens} if self.num_base_tokens else {}
        return base | {
            "loss": self.loss,
            "ratio_mean": self.ratio_sum / tokens,
            "ratio_max": self.ratio_max,
            "ratio_min": 1 / self.inverse_ratio_max if self.num_tokens else 0.0,
            "ratio_high_fraction": self.num_high / tokens,
            "ratio_low_fraction": self.num_low / tokens,
            "sequence_ratio_mean": self.sequence_ratio_sum / spans,
            "sequence_ratio_max": self.sequence_ratio_max,
            "clipped_fraction": self.num_clipped / tokens,
            "masked_fraction": self.num_masked / tokens,
            "clipped_exchange_fraction": self.num_clipped_spans / spans,
            "masked_exchange_fraction": self.num_masked_spans / spans,
            "bounded_exchange_fraction": self.num_bounded_spans / spans,
            "logprob_difference": self.absolute_sum / tokens,
            "approximate_kl": self.kl_sum / tokens,
            "entropy": self.entropy_sum / tokens,
            "policy_logprob": self.policy_logprob_sum / tokens,
        }


def _num_spans(row: PackedRow, tokens_T: Tensor) -> Tensor:
    """How many exchanges have such a token."""
    return (torch.bincount(row.owner_T[tokens_T], minlength=1) > 0).sum()
