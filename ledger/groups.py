"""When a group can be trained: scored, and as complete as it will be. Asking changes nothing; a claim does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import Question
from ledger.vocabulary import GroupKind

MIN_SCORED = 2
MOST_NUDGED = 256
_MEMBERS = """
    FROM groups AS g
    CROSS JOIN LATERAL (
        SELECT count(*) AS num_members, count(scored.reward) AS num_scored
        FROM trajectories AS t
        LEFT JOIN LATERAL (
            SELECT r.reward FROM v1.trajectory_rewards AS r WHERE r.trajectory_id = t.id
        ) AS scored ON true
        WHERE t.group_id = g.id
    ) AS m
"""
_READY = text(f"""
    SELECT g.id AS group_id, g.kind, m.num_members, m.num_scored, g.created_at {_MEMBERS}
    WHERE g.policy_id = :policy_id AND g.state = 'open' AND m.num_scored >= {MIN_SCORED}
        AND (
            m.num_scored = m.num_members
                AND (m.num_members >= g.size OR g.last_member_at <= now() - make_interval(secs => :grace))
            OR g.last_member_at <= now() - make_interval(secs => :deadline)
        )
    ORDER BY g.created_at, g.id
    LIMIT :limit
""")
# First without the view, which takes a millisecond to plan: mostly somebody was not judged at all yet.
_MAY_BE_COMPLETE = text(f"""
    SELECT g.id FROM groups AS g
    CROSS JOIN LATERAL (
        SELECT count(*) AS num_members FROM (
            SELECT FROM trajectories AS t WHERE t.group_id = g.id LIMIT {MOST_NUDGED + 1}
        ) AS looked_at
    ) AS m
    WHERE g.id = ANY (CAST(:ids AS uuid[])) AND g.state = 'open'
        AND m.num_members >= greatest(g.size, {MIN_SCORED}) AND m.num_members <= {MOST_NUDGED}
        AND NOT EXISTS (
            SELECT FROM trajectories AS t WHERE t.group_id = g.id
                AND NOT EXISTS (SELECT FROM reward_events AS r WHERE r.trajectory_id = t.id)
        )
""")  # noqa: S608 - constants
_COMPLETE = text("""
    SELECT g.id FROM groups AS g
    WHERE g.id = ANY (CAST(:ids AS uuid[])) AND NOT EXISTS (
        SELECT FROM trajectories AS t WHERE t.group_id = g.id
            AND NOT EXISTS (SELECT FROM v1.rewards AS r WHERE r.trajectory_id = t.id AND r.is_counted)
    )
""")


@dataclass(frozen=True, slots=True)
class ReadyGroup:
    """Example: the 8 choices of one call, all rewarded -> kind choices, num_members 8, num_scored 8."""

    group_id: UUID
    kind: GroupKind
    num_members: int
    num_scored: int
    created_at: datetime


def ready_groups(
    connection: Connection, policy_id: UUID, *, grace_seconds: float, deadline_seconds: float, limit: int
) -> list[ReadyGroup]:
    """Open groups, oldest first, with at least 2 scored members, that are complete or past their deadline.

    Complete: all members are scored, and the declared size is reached or no member came for `grace_seconds`.
    Past the deadline: no member came for `deadline_seconds`; the unscored ones are left out by the step.
    """
    wanted = {"policy_id": policy_id, "grace": grace_seconds, "deadline": deadline_seconds, "limit": limit}
    return [
        ReadyGroup(row.group_id, GroupKind(row.kind), row.num_members, row.num_scored, row.created_at)
        for row in connection.execute(_READY, wanted)
    ]


def may_be_complete(group_ids: Iterable[UUID]) -> Question:
    """Which of these open groups have no member that nobody judged. No more than `MOST_NUDGED` members of each are
    looked at: a larger group is left to the trainer's next look.
    """
    return _MAY_BE_COMPLETE, {"ids": list(group_ids)}


def complete_groups(connection: Connection, may_be: Sequence[UUID]) -> set[UUID]:
    """Those of them whose members that are there are all scored: worth a nudge. The grace period is the trainer's."""
    return set(connection.scalars(_COMPLETE, {"ids": list(may_be)})) if may_be else set()
