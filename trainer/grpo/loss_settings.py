"""What can be chosen about the loss. Apart from trainer.grpo.loss, so that beat reads its settings without torch."""

from dataclasses import dataclass
from enum import StrEnum


class LossKind(StrEnum):
    CISPO = "cispo"
    PPO = "ppo"
    NLL = "nll"  # -advantage * policy_logprob: no ratio, no trust mask. Demonstrations and preferences, not rewards


@dataclass(frozen=True, slots=True)
class LossSettings:
    kind: LossKind = LossKind.CISPO
    cispo_cap: float = 3.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    trust_log_ratio: float = 3.0  # |log ratio| above it: the two engines disagree, the token is masked
    kl_weight: float = 0.0
