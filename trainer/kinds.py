"""Which function makes a step of what somebody asked for, by its kind.

Each only reads, and imports neither `trainer.claim` nor torch: a plan knows them, too. A kind that is missing is refused.
"""

from collections.abc import Mapping

from ledger.vocabulary import StepKind
from trainer import by_hand, by_wish
from trainer.beginning import Take

KINDS: Mapping[StepKind, Take] = {
    StepKind.GRPO: by_hand.take,
    StepKind.SFT: by_wish.take,
    StepKind.DPO: by_wish.take,
}
