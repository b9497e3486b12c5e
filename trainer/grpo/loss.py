"""The loss of one row: a sum over its trained tokens, divided by the number of trained tokens of the whole step.

Legend: T = trained tokens of the row. ratio = exp(policy_logprobs - sampling_logprobs), both at the sampling
temperature. Invariant: the sum over rows is the same however the step is split into rows, and a masked token adds no
gradient.

CISPO (MiniMax-M1, arXiv:2506.13585, eq. 4-5): -min(ratio, cap).detach() * A * policy_logprob; only the upper cap, and no
division per sequence. PPO (arXiv:1707.06347, eq. 7): -min(ratio * A, clip(ratio, 1 - low, 1 + high) * A).
NLL, for demonstrations and preferences: -A * policy_logprob, a negative log-likelihood weighted by the advantage; the
sampling logprobs are not looked at.
KL to the base: k3 = exp(d) - d - 1 with d = base - policy (Schulman, "Approximating KL divergence", 2020).
"""

from dataclasses import replace

import torch
from torch import Tensor

from trainer.grpo.loss_settings import LossKind, LossSettings
from trainer.grpo.metrics import LossMetrics
from trainer.grpo.packing import PackedRow


class NotFiniteError(ArithmeticError):
    """A number of the step is NaN or infinite."""


def row_loss(
    row: PackedRow,
    policy_logprobs_T: Tensor,
    num_step_tokens: int,
    settings: LossSettings,
    *,
    entropies_T: Tensor | None = None,
    base_logprobs_T: Tensor | None = None,
) -> tuple[Tensor, LossMetrics]:
    """(loss with gradient, metrics without). `num_step_tokens` counts the trained tokens of all rows of the step:
    masked ones too, since how many those are is known only after the last row.

    Raises NotFiniteError, which names the exchange, where a logprob is NaN or infinite.
    """
    if settings.kind is LossKind.NLL:  # what was demonstrated has no sampling logprobs
        row = replace(row, sampling_logprobs_T=policy_logprobs_T.detach())
    require_finite(row, policy_logprobs_T)
    log_ratio_T = policy_logprobs_T.detach() - row.sampling_logprobs_T
    trusted_T = log_ratio_T.abs() <= settings.trust_log_ratio
    terms_U, clipped_U = _policy_terms(  # U = the trusted tokens: what is not trusted never enters the graph
        policy_logprobs_T[trusted_T],
        row.sampling_logprobs_T[trusted_T],
        row.advantages_T[trusted_T],
        settings,
    )
    if base_logprobs_T is not None:
        terms_U = terms_U + settings.kl_weight * k3((base_logprobs_T - policy_logprobs_T)[trusted_T])
    loss = terms_U.sum() / num_step_tokens
    return loss, LossMetrics.of(loss, row, log_ratio_T, int(clipped_U.sum()), ~trusted_T, entropies_T)


def k3(difference_T: Tensor) -> Tensor:
    """exp(d) - d - 1 >= 0: an estimate of the divergence with little variance."""
    return difference_T.exp() - difference_T - 1


def require_finite(row: PackedRow, policy_logprobs_T: Tensor) -> None:
    """NaN and infinity stop here, before the optimizer, with the exchange they came from."""
    policy_logprobs_T = policy_logprobs_T.detach()
    finite_T = torch.isfinite(policy_logprobs_T + row.sampling_logprobs_T + row.advantages_T)
    if not bool(finite_T.all()):
        index = int((~finite_T).nonzero()[0, 0])
        raise NotFiniteError(
            f"exchange {row.exchange_ids[int(row.owner_T[index])]} gives a logprob that is not finite "
            f"(policy {float(policy_logprobs_T[index]):g}, sampling {float(row.sampling_logprobs_T[index]):g}, "
            f"advantage {float(row.advantages_T[index]):g})"
        )


def _policy_terms(
    policy_logprobs_U: Tensor, sampling_logprobs_U: Tensor, advantages_U: Tensor, settings: LossSettings
) -> tuple[Tensor, Tensor]:
    if settings.kind is LossKind.NLL:
        return -advantages_U * policy_logprobs_U, torch.zeros_like(advantages_U, dtype=torch.bool)
    ratio_U = (policy_logprobs_U - sampling_logprobs_U).exp()
    if settings.kind is LossKind.CISPO:
        weight_U = ratio_U.detach().clamp(max=settings.cispo_cap)
        return -weight_U * advantages_U * policy_logprobs_U, ratio_U.detach() > settings.cispo_cap
    free_U = ratio_U * advantages_U
    bounded_U = ratio_U.clamp(1 - settings.clip_low, 1 + settings.clip_high) * advantages_U
    return -torch.minimum(free_U, bounded_U), (bounded_U < free_U).detach()
