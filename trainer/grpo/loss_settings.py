"""What can be chosen about the loss. Apart from trainer.grpo.loss, so that beat reads its settings without torch."""

from dataclasses import dataclass
from enum import StrEnum


class LossKind(StrEnum):
    CISPO = "cispo"
    PPO = "ppo"
    NLL = "nll"  # -advantage * policy_logprob: no ratio, no trust mask. Demonstrations and preferences, not rewards


class Importance(StrEnum):
    """Of what a ratio is."""

    TOKEN = "token"  # noqa: S105 - not a secret: of each token by itself
    SEQUENCE = "sequence"  # of an exchange's tokens together: their geometric mean (GSPO)


class Normalization(StrEnum):
    """What the sum of a step's terms is divided by."""

    TOKENS = "tokens"  # the trained tokens of the step: a long exchange counts for more
    SEQUENCES = (
        "sequences"  # the tokens of each exchange, and the exchanges of the step: each counts the same
    )


@dataclass(frozen=True, slots=True)
class LossSettings:
    kind: LossKind = LossKind.CISPO
    importance: Importance = Importance.TOKEN
    importance_cap: float | None = None  # PPO only: the ratio becomes a weight of at most this (TIS)
    normalization: Normalization = Normalization.TOKENS
    cispo_cap: float = 3.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    trust_log_ratio: float = 3.0  # |log ratio| above it: the two engines disagree, the token is masked
    kl_weight: float = 0.0
