"""The loss of one row: a sum over its trained tokens, each weighed by what it counts in the whole step.

Legend: T = trained tokens of the row, U = those that are trusted, E = exchanges of the row; logprobs are those at the
sampling temperature. Invariants: the sum over rows is the same however the step is split into rows, and a masked token
adds no gradient. docs/decisions/0022-loss.md says where each formula is from and what differs.
"""

from dataclasses import replace

import torch
from torch import Tensor

from trainer.grpo.loss_settings import LossKind, LossSettings
from trainer.grpo.metrics import LossMetrics
from trainer.grpo.packing import PackedRow
from trainer.grpo.ratios import at_level
from trainer.grpo.step_size import StepSize


class NotFiniteError(ArithmeticError):
    """A number of the step is NaN or infinite."""


def row_loss(
    row: PackedRow,
    policy_logprobs_T: Tensor,
    size: StepSize,
    settings: LossSettings,
    *,
    entropies_T: Tensor | None = None,
    base_logprobs_T: Tensor | None = None,
) -> tuple[Tensor, LossMetrics]:
    """(loss with gradient, metrics without). `size` is that of the whole step.

    The trust mask is a weight of 0, as IcePop's (arXiv:2510.18855): what is masked still counts in `size`, since it
    was sampled and judged, and fewer trusted tokens make a smaller step, not a louder rest. Truncated and otherwise unusable
    exchanges are none of the step's samples at all: they are in neither numerator nor denominator (B123).
    Raises NotFiniteError, which names the exchange, where a number is NaN or infinite.
    """
    row = _as_drawn(row, policy_logprobs_T.detach(), settings.kind)
    numbers = {
        "policy logprob": policy_logprobs_T,
        "sampling logprob": row.sampling_logprobs_T,
        "advantage": row.advantages_T,
    }
    if base_logprobs_T is not None:
        numbers["base logprob"] = base_logprobs_T
    require_finite(row, numbers)
    log_ratio_T = policy_logprobs_T.detach() - row.sampling_logprobs_T
    trusted_T = log_ratio_T.abs() <= settings.trust_log_ratio
    logprobs_U = policy_logprobs_T[trusted_T]  # what is not trusted never enters the graph
    level_U = at_level(log_ratio_T[trusted_T], row.owner_T[trusted_T], settings.importance)
    terms_U, clipped_U = policy_terms(logprobs_U, level_U, row.advantages_T[trusted_T], settings)
    base_kl_U = None
    if base_logprobs_T is not None:
        base_kl_U = k3(base_logprobs_T[trusted_T] - logprobs_U)
        terms_U = terms_U + settings.kl_weight * base_kl_U
    terms_T = torch.zeros_like(policy_logprobs_T).masked_scatter(trusted_T, terms_U)
    require_finite(row, {"term of the loss": terms_T})
    loss = (terms_T * size.weights(row, settings.normalization)).sum()
    return loss, LossMetrics.of(
        loss,
        row,
        policy_logprobs_T,
        log_ratio_T,
        trusted_T,
        torch.zeros_like(trusted_T).masked_scatter(trusted_T, clipped_U),
        entropies_T,
        base_kl_U,
    )


def policy_terms(
    policy_logprobs_U: Tensor, level_U: Tensor, advantages_U: Tensor, settings: LossSettings
) -> tuple[Tensor, Tensor]:
    """(terms_U with gradient, clipped_U). `level_U`: the log-ratio to the sampling policy, of the token or of its sequence.

    CISPO (MiniMax-M1, arXiv:2506.13585, eq. 4-5): -min(r, cap).detach() * A * policy_logprob; of the paper's two caps the
    upper one only, as the paper itself uses it, and no division per group.
    PPO (arXiv:1707.06347, eq. 7): -min(r * A, clip(r, 1 - low, 1 + high) * A), with two bounds as in DAPO
    (arXiv:2503.14476, eq. 8). The old policy is the one that sampled, as vLLM tells it.
    Sequence level: GSPO-token (arXiv:2507.18071, eq. 13-14), whose ratio has the sequence's value and the token's gradient;
    normalised by sequences it is GSPO's eq. 5, value and gradient. A sequence is one exchange, and its mean is over trusted
    tokens; GSPO's own bounds are some 3e-4, since a mean of log-ratios stays near 0.
    PPO with an importance cap: truncated importance sampling (Ionides 2008; IMPALA, arXiv:1802.01561, eq. 1; Yao et al. 2025,
    "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training"): min(r, cap).detach() weighs PPO's term, whose own ratio is
    to the policy at the step's begin. We take one optimizer step per batch, so that ratio is 1, nothing is clipped, and the
    gradient is that of CISPO with the same cap; the values differ (A against A * policy_logprob).
    NLL, for demonstrations and preferences: -A * policy_logprob, a log-likelihood weighed by the advantage.
    """
    never_U = torch.zeros_like(advantages_U, dtype=torch.bool)
    if settings.kind is LossKind.NLL:
        return -advantages_U * policy_logprobs_U, never_U
    if settings.kind is LossKind.CISPO:
        weights_U, capped_U = _capped(level_U, settings.cispo_cap)
        return -weights_U * advantages_U * policy_logprobs_U, capped_U
    own_U = policy_logprobs_U - policy_logprobs_U.detach()  # 0, with the gradient of the logprob
    if settings.importance_cap is not None:
        weights_U, capped_U = _capped(level_U, settings.importance_cap)
        return -weights_U * own_U.exp() * advantages_U, capped_U
    ratio_U = (level_U + own_U).exp()
    free_U = ratio_U * advantages_U
    bounded_U = ratio_U.clamp(1 - settings.clip_low, 1 + settings.clip_high) * advantages_U
    return -torch.minimum(free_U, bounded_U), (bounded_U < free_U).detach()


def k3(difference_U: Tensor) -> Tensor:
    """exp(d) - d - 1 >= 0 with d = base - policy: Schulman, "Approximating KL divergence", 2020.

    Differentiated as it stands and not weighed by the ratio, as in GRPO (arXiv:2402.03300, eq. 4).
    """
    return difference_U.exp() - difference_U - 1


def require_finite(row: PackedRow, numbers: dict[str, Tensor]) -> None:
    """NaN and infinity stop here, before the optimizer, with the exchange they came from; each number has shape [T]."""
    finite_T = torch.isfinite(torch.stack([value.detach() for value in numbers.values()]).sum(0))
    if not bool(finite_T.all()):
        index = int((~finite_T).nonzero()[0, 0])
        found = ", ".join(f"{name} {float(value.detach()[index]):g}" for name, value in numbers.items())
        exchange_id = row.exchange_ids[int(row.owner_T[index])]
        raise NotFiniteError(f"exchange {exchange_id} gives a number that is not finite ({found})")


def _as_drawn(row: PackedRow, policy_logprobs_T: Tensor, kind: LossKind) -> PackedRow:
    """What was demonstrated was not drawn, and a forced token was no choice: their ratio is 1, whatever the policy.

    A forced token also has no advantage: nothing else could have been written there.
    """
    if kind is LossKind.NLL:
        return replace(row, sampling_logprobs_T=policy_logprobs_T)
    return replace(
        row,
        sampling_logprobs_T=torch.where(row.forced_T, policy_logprobs_T, row.sampling_logprobs_T),
        advantages_T=row.advantages_T.masked_fill(row.forced_T, 0.0),
    )


def _capped(level_U: Tensor, cap: float) -> tuple[Tensor, Tensor]:
    ratio_U = level_U.exp()
    return ratio_U.clamp(max=cap), ratio_U > cap
