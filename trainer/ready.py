"""The groups that a step would take now. Asking changes nothing."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection

from ledger.groups.readiness import Readiness, ReadyGroup, ready_groups
from trainer.settings import TrainerSettings

READ_AHEAD = 4  # times the ceiling: what teaches nothing, or proves too large, takes no place in a step


def next_groups(
    connection: Connection,
    policy_id: UUID,
    settings: TrainerSettings,
    among: Sequence[UUID] | None = None,
    readiness: Readiness | None = None,
) -> list[ReadyGroup]:
    """The groups (or those of them) that are ready by these settings, or by `readiness`; oldest first."""
    when = readiness or settings.readiness()
    found = ready_groups(connection, policy_id, when, limit=settings.step_max_groups, among=among)
    return within(found, READ_AHEAD * settings.step_max_tokens)


def within(ready: Sequence[ReadyGroup], max_tokens: int) -> list[ReadyGroup]:
    """Those that a step can have room for: so many tokens, and the group that goes beyond."""
    taken, num_tokens = [], 0
    for group in ready:
        if num_tokens >= max_tokens:
            break
        taken.append(group)
        num_tokens += group.num_tokens
    return taken
