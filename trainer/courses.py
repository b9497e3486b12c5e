"""How each kind of step builds and learns: what `trainer.step` asks, so that its story is one for all kinds.

Invariant: none of these moves a step's state, nor touches a lease.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from sqlalchemy import Connection

from ledger.vocabulary import StepKind
from trainer import batch_metrics, build, learned
from trainer.claim import Step
from trainer.imitation import build as imitation
from trainer.imitation import learning as imitating
from trainer.imitation import outcome as imitated
from trainer.learned import Learned
from trainer.material import Material
from trainer.parent import Parent
from trainer.policy_model import PolicyModel
from trainer.preference import build as preference
from trainer.preference import learning as preferring
from trainer.preference import outcome as preferred
from trainer.settings import TrainerSettings


@dataclass(frozen=True, slots=True)
class Course:
    """`read_batch` decides and writes nothing; `write_batch` freezes what it decided; `read_material` reads that again."""

    read_batch: Callable[[Connection, Step, TrainerSettings], Any]
    write_batch: Callable[[Connection, Step, Any, TrainerSettings], None]
    metrics_of: Callable[[Any], dict[str, Any]]  # num_used_exchanges 0: nothing to learn
    nothing_to_learn: Callable[[Any], str]
    read_material: Callable[[Connection, Step, TrainerSettings], Material]
    learn: Callable[[PolicyModel, Parent, Material, TrainerSettings, Step, Callable[[], None]], Learned]


def _read_samples(connection: Connection, step: Step, settings: TrainerSettings) -> Material:
    """`settings` as every kind's."""
    del settings
    return Material(tuple(build.read_samples(connection, step)))


def _learn_from_rewards(
    model: PolicyModel,
    parent: Parent,
    material: Material,
    settings: TrainerSettings,
    step: Step,
    between_rows: Callable[[], None],
) -> Learned:
    """`step` as every kind's."""
    del step
    return learned.learn(model, parent, material.samples, settings, between_rows)


COURSES: Mapping[StepKind, Course] = {
    StepKind.GRPO: Course(
        build.read_batch,
        build.write_batch,
        batch_metrics.batch_metrics,
        batch_metrics.nothing_to_learn,
        _read_samples,
        _learn_from_rewards,
    ),
    StepKind.SFT: Course(
        imitation.read_batch,
        imitation.write_batch,
        imitated.metrics_of,
        imitated.nothing_to_learn,
        imitation.read_material,
        imitating.learn,
    ),
    StepKind.DPO: Course(
        preference.read_batch,
        preference.write_batch,
        preferred.metrics_of,
        preferred.nothing_to_learn,
        preference.read_material,
        preferring.learn,
    ),
}


class RemoteModel(Protocol):
    """A model that other processes hold."""

    device: torch.device  # of this process: nothing is computed here

    def learn(
        self,
        parent: Parent,
        material: Material,
        settings: TrainerSettings,
        step: Step,
        between_rows: Callable[[], None],
    ) -> Learned: ...


def learn(
    model: PolicyModel | RemoteModel,
    parent: Parent,
    material: Material,
    settings: TrainerSettings,
    step: Step,
    between_rows: Callable[[], None],
) -> Learned:
    """As the step's kind does. Where other processes hold the model, they do this same thing together."""
    if not isinstance(model, PolicyModel):
        return model.learn(parent, material, settings, step, between_rows)
    return COURSES[step.kind].learn(model, parent, material, settings, step, between_rows)
