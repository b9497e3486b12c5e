"""Which policies a worker trains: of each that it has settings for, the one of every project, with those settings.

Invariant: a policy is trained only on the base model that it is registered with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, Engine

from ledger.policies import Policy, ensure_policy, read_policies
from ledger.vocabulary import DEFAULT_PROJECT
from trainer.settings import TrainerSettings


@dataclass(frozen=True, slots=True)
class Learner:
    """A policy of one project, and what it learns with."""

    policy: Policy
    settings: TrainerSettings


def register(connection: Connection, trained: Sequence[TrainerSettings]) -> None:
    """Each policy in the default project; the proxies make those of the others. Raises LedgerError for another base."""
    for settings in trained:
        ensure_policy(connection, name=settings.policy, base_model=settings.base_model)


def read_learners(connection: Connection, trained: Sequence[TrainerSettings]) -> list[Learner]:
    """Those of the default project first, in the order of their settings; then the other projects'."""
    by_policy = {(settings.policy, settings.base_model): settings for settings in trained}
    order = list(by_policy)
    policies = [p for p in read_policies(connection) if (p.name, p.base_model) in by_policy]
    policies.sort(
        key=lambda p: (p.project != DEFAULT_PROJECT, p.project, order.index((p.name, p.base_model)))
    )
    return [Learner(policy, by_policy[policy.name, policy.base_model]) for policy in policies]


def in_turn(learners: list[Learner], last_policy_id: UUID | None) -> list[Learner]:
    """The one behind the last first, so that no policy's traffic holds back another's."""
    turn = next((i for i, one in enumerate(learners) if one.policy.id == last_policy_id), -1) + 1
    return learners[turn:] + learners[:turn]


def known_learners(engine: Engine, trained: Sequence[TrainerSettings]) -> list[Policy]:
    """Their policies, for whoever needs no settings."""
    with engine.connect() as connection:
        return [learner.policy for learner in read_learners(connection, trained)]
