"""Which function makes a step of what somebody asked for, by its kind.

Each only reads, and imports neither `trainer.claim` nor torch: a plan knows them, too. A kind that is missing is refused.
"""

from collections.abc import Mapping

from ledger.vocabulary import StepKind
from trainer import by_hand
from trainer.beginning import Take
from trainer.imitation import taking as imitation
from trainer.preference import taking as preference

KINDS: Mapping[StepKind, Take] = {
    StepKind.GRPO: by_hand.take,
    StepKind.SFT: imitation.take,
    StepKind.DPO: preference.take,
}
