"""Ratios of the policy to whoever sampled: of each token, or of all trained tokens of an exchange together. Pure.

Legend: U = some trained tokens, owner_U = the exchange of each. No gradient flows through here.
"""

import torch
from torch import Tensor

from trainer.grpo.loss_settings import Importance


def at_level(log_ratio_U: Tensor, owner_U: Tensor, importance: Importance) -> Tensor:
    """The log-ratio that each token is judged by. Example, sequence: (0.2, 0.4) of one exchange -> (0.3, 0.3).

    The mean, not the sum: a small difference per token does not grow with the length (GSPO, arXiv:2507.18071 eq. 7; B118).
    """
    return log_ratio_U if importance is Importance.TOKEN else sequence_means(log_ratio_U, owner_U)[owner_U]


def sequence_means(log_ratio_U: Tensor, owner_U: Tensor, num_exchanges: int = 0) -> Tensor:
    """Of each exchange by its number, at least `num_exchanges` of them; 0 for one without tokens."""
    num_tokens_E = torch.bincount(owner_U, minlength=num_exchanges)
    sums_E = torch.zeros(len(num_tokens_E), dtype=log_ratio_U.dtype, device=log_ratio_U.device)
    return sums_E.index_add(0, owner_U, log_ratio_U) / num_tokens_E.clamp(min=1)
