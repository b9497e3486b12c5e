"""The groups that are ready now, and those of them that a step would take. Asking changes nothing."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection

from ledger.groups.readiness import Readiness, ReadyGroup, ready_groups
from trainer.settings import TrainerSettings

READ_AHEAD = 4  # times the ceiling: what teaches nothing, or proves too large, takes no place in a step


def groups_now(
    connection: Connection,
    policy_id: UUID,
    settings: TrainerSettings,
    among: Sequence[UUID] | None = None,
    readiness: Readiness | None = None,
) -> list[ReadyGroup]:
    """The groups (or those of them) that are ready by these settings, or by `readiness`; oldest first. By all of them it is
    decided whether a step begins, also by those that it has no room for.
    """
    when = readiness or settings.readiness()
    return ready_groups(connection, policy_id, when, limit=settings.step_max_groups, among=among)


def with_room(ready: Sequence[ReadyGroup], settings: TrainerSettings) -> list[ReadyGroup]:
    """Those of them that the step reads."""
    return within(ready, READ_AHEAD * settings.step_max_tokens)


def within(ready: Sequence[ReadyGroup], max_tokens: int) -> list[ReadyGroup]:
    """Those that a step can have room for: so many tokens, and the group that goes beyond."""
    taken, num_tokens = [], 0
    for group in ready:
        if num_tokens >= max_tokens:
            break
        taken.append(group)
        num_tokens += group.num_tokens
    return taken
