"""DPO (Rafailov et al., arXiv:2305.18290, eq. 7), in two passes. Pure.

With pi the policy, pi0 the reference, p and o the preferred and the other answer, the loss of a pair is -log sigmoid(x),
x = beta * margin, margin = log(pi(p) / pi0(p)) - log(pi(o) / pi0(o)). Its gradient is
-beta * sigmoid(-x) * (grad log pi(p) - grad log pi(o)), so rows of likelihood weighted by +-beta * sigmoid(-x) have it.
Differs from the paper: pi0 is the base model with the adapter off, not an SFT model of its own.
"""

from collections.abc import Sequence
from math import exp, log1p
from typing import Any

from trainer.material import Pair


def margin_of(pair: Pair, log_ratios_S: Sequence[float]) -> float:
    """`log_ratios_S`: log(pi / pi0) of each side. Example: 0.5 and -0.25 -> 0.75."""
    return log_ratios_S[pair.preferred] - log_ratios_S[pair.other]


def loss_of(margin: float, beta: float) -> float:
    """-log sigmoid(beta * margin), without overflow. Example: margin 0 -> log 2 = 0.693."""
    x = beta * margin
    return log1p(exp(-abs(x))) + max(-x, 0.0)


def coefficient(margin: float, beta: float) -> float:
    """How strongly a pair still pulls: beta * sigmoid(-beta * margin). Example: margin 0, beta 0.1 -> 0.05."""
    x = beta * margin
    return beta * (exp(-x) / (1 + exp(-x)) if x > 0 else 1 / (1 + exp(x)))


def side_weights(pairs: Sequence[Pair], log_ratios_S: Sequence[float], beta: float) -> dict[int, float]:
    """The weight of each side's likelihood, over all of its pairs, for the mean over these pairs.

    Example: one pair of margin 0, beta 0.1 -> {preferred: 0.05, other: -0.05}.
    """
    weights: dict[int, float] = {}
    for pair in pairs:
        pull = coefficient(margin_of(pair, log_ratios_S), beta) / len(pairs)
        weights[pair.preferred] = weights.get(pair.preferred, 0.0) + pull
        weights[pair.other] = weights.get(pair.other, 0.0) - pull
    return weights


def figures(pairs: Sequence[Pair], log_ratios_S: Sequence[float], beta: float) -> dict[str, Any]:
    """Loss, share of pairs whose preferred answer gained more than the other, and the mean margin (nats)."""
    margins = [margin_of(pair, log_ratios_S) for pair in pairs]
    count = max(len(margins), 1)
    return {
        "loss": sum(loss_of(margin, beta) for margin in margins) / count,
        "accuracy": sum(margin > 0 for margin in margins) / count,
        "margin": sum(margins) / count,
    }
