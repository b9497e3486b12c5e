"""A step of any kind as `trainer.courses.learn` is given it, without a ledger."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from ledger.vocabulary import StepKind, StepState
from trainer.claim import Step
from trainer.distributed.ranks import Ranks
from trainer.grpo.samples import Sample
from trainer.learned import Learned
from trainer.material import Material
from trainer.parent import Parent
from trainer.settings import TrainerSettings


def nothing() -> None:
    pass


def a_step(kind: StepKind = StepKind.GRPO, settings: dict[str, Any] | None = None) -> Step:
    return Step(
        id=UUID(int=1),
        policy_id=UUID(int=2),
        version=1,
        parent_version=0,
        state=StepState.BUILT,
        attempt=1,
        fencing_token=1,
        seed=3,
        settings=settings or {},
        metrics={},
        kind=kind,
    )


def learn_together(
    ranks: Ranks,
    parent: Parent,
    samples: Sequence[Sample],
    settings: TrainerSettings,
    between_rows: Callable[[], None] = nothing,
) -> Learned:
    return ranks.learn(parent, Material(tuple(samples)), settings, a_step(), between_rows)
