"""What a step of sft or dpo would be built from, by the step's own functions: nothing is written, and no model is loaded.

A base model's tokenizer is, where answers have to be tokenised.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from ledger.policies import Policy
from ledger.vocabulary import StepKind, StepState
from ledger.workers import worker_of
from trainer.claim import Step
from trainer.imitation import build as imitation
from trainer.imitation import outcome as imitated
from trainer.preference import build as preference
from trainer.preference import outcome as preferred
from trainer.settings import TrainerSettings


def rehearse(
    connection: Connection,
    policy: Policy,
    kind: StepKind,
    arguments: Mapping[str, Any],
    settings: TrainerSettings,
) -> dict[str, Any]:
    """`metrics` as the step would record them; `reason` where it would be skipped. `connection` is a snapshot."""
    worker = worker_of(connection, policy.id)
    known = settings if worker is None else settings.as_planned_by(worker.settings)
    known = known.model_copy(update={"base_model": policy.base_model})
    step = _step_of(policy, kind, arguments)
    if kind is StepKind.SFT:
        answers = imitation.read_batch(connection, step, known)
        metrics = imitated.metrics_of(answers)
        reason = None if answers.used else imitated.nothing_to_learn(answers)
    else:
        pairs = preference.read_batch(connection, step, known)
        metrics = preferred.metrics_of(pairs)
        reason = None if pairs.num_pairs else preferred.nothing_to_learn(pairs)
    return {
        "object": "rehearsal",
        "kind": str(kind),
        "policy": policy.name,
        "metrics": metrics,
        "reason": reason,
    }


def _step_of(policy: Policy, kind: StepKind, arguments: Mapping[str, Any]) -> Step:
    """The step that would come: it has no row, and so no id, number or token."""
    wish = {str(kind): dict(arguments)}
    return Step(UUID(int=0), policy.id, 0, policy.live_version, StepState.CLAIMED, 1, 0, 0, wish, {}, kind)
