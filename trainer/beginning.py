"""What a step begins with, and what decides it when somebody asked for one (docs/decisions/0024).

Invariant: nothing here writes; `trainer.claim` begins the step, whatever its kind.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from ledger.policies import Policy
from ledger.step_requests import StepRequest
from ledger.vocabulary import StepKind
from trainer.settings import TrainerSettings


@dataclass(frozen=True, slots=True)
class Beginning:
    """Example: kind grpo, the ids of 8 ready groups, `settings.learning()`: all that the step records of its settings (I9)."""

    kind: StepKind
    settings: dict[str, Any]
    group_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """It cannot be done: `reason` is one sentence that says what would help."""

    reason: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as its kind's function sees it, within the transaction that begins the step, under the policy's lock."""

    connection: Connection
    policy: Policy
    settings: TrainerSettings  # of this policy
    request: StepRequest
    among: Sequence[UUID]  # open groups that have a judged member


Take = Callable[[Asked], Beginning | Refusal]
