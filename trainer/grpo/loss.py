"""The loss of one row: a sum over its trained tokens, divided by the number of trained tokens of the whole step.

Legend: T = trained tokens of the row. ratio = exp(policy_logprobs - sampling_logprobs), both at the sampling
temperature. Invariant: the sum over rows is the same however the step is split into rows, and a masked token adds no
gradient.

CISPO (MiniMax-M1, arXiv:2506.13585, eq. 4-5): -min(ratio, cap).detach() * A * policy_logprob; only the upper cap, and no
division per sequence. PPO (arXiv:1707.06347, eq. 7): -min(ratio * A, clip(ratio, 1 - low, 1 + high) * A).
KL to the base: k3 = exp(d) - d - 1 with d = base - policy (Schulman, "Approximating KL divergence", 2020).
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from trainer.grpo.metrics import LossMetrics
from trainer.grpo.packing import PackedRow


class LossKind(StrEnum):
    CISPO = "cispo"
    PPO = "ppo"


@dataclass(frozen=True, slots=True)
class LossSettings:
    kind: LossKind = LossKind.CISPO
    cispo_cap: float = 3.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    trust_log_ratio: float = 3.0  # |log ratio| above it: the two engines disagree, the token is masked
    kl_weight: float = 0.0


def row_loss(
    row: PackedRow,
    policy_logprobs_T: Tensor,
    num_step_tokens: int,
    settings: LossSettings,
    *,
    entropies_T: Tensor | None = None,
    base_logprobs_T: Tensor | None = None,
) -> tuple[Tensor, LossMetrics]:
    """(loss with gradient, metrics without). `num_step_tokens` counts the trained tokens of all rows of the step."""
    log_ratio_T = policy_logprobs_T.detach() - row.sampling_logprobs_T
    trusted_T = log_ratio_T.abs() <= settings.trust_log_ratio
    terms_T, clipped_T = _policy_terms(row, policy_logprobs_T, settings)
    if base_logprobs_T is not None:
        terms_T = terms_T + settings.kl_weight * k3(base_logprobs_T - policy_logprobs_T)
    kept_T = torch.where(trusted_T, terms_T, torch.zeros_like(terms_T))
    loss = kept_T.sum() / num_step_tokens
    metrics = LossMetrics.of(loss, row, log_ratio_T, clipped_T, ~trusted_T, entropies_T)
    return loss, metrics


def k3(difference_T: Tensor) -> Tensor:
    """exp(d) - d - 1 >= 0: an estimate of the divergence with little variance."""
    return difference_T.exp() - difference_T - 1


def _policy_terms(
    row: PackedRow, policy_logprobs_T: Tensor, settings: LossSettings
) -> tuple[Tensor, Tensor]:
    # Far outside the trust mask exp() may overflow; such a term is masked, but inf * 0 must not become NaN.
    bound = settings.trust_log_ratio + 1
    ratio_T = (policy_logprobs_T - row.sampling_logprobs_T).clamp(-bound, bound).exp()
    advantages_T = row.advantages_T
    if settings.kind is LossKind.CISPO:
        weight_T = ratio_T.detach().clamp(max=settings.cispo_cap)
        return -weight_T * advantages_T * policy_logprobs_T, ratio_T.detach() > settings.cispo_cap
    clipped_ratio_T = ratio_T.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    free_T, bounded_T = ratio_T * advantages_T, clipped_ratio_T * advantages_T
    return -torch.minimum(free_T, bounded_T), (bounded_T < free_T).detach()
