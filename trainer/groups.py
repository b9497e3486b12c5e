"""Groups as a step finds them: members, what was judged about them, and what an earlier group of the key left."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.conversation import whole_exchanges
from ledger.vocabulary import GroupKind
from trainer.grpo.advantages import MIN_MEMBERS
from trainer.ladder import Group, Member, Stored
from trainer.rewards import Judged, read_judged

_CLAIMED = text("SELECT id FROM groups WHERE step_id = :step_id AND state = 'claimed'")
_GROUPS = text(
    "SELECT id, kind, route FROM groups WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY created_at, id"
)
# For each route of a group's members the newest earlier one that was trained with it: readiness asks for the same.
_STORED = text(f"""
    SELECT m.group_id, earlier.route, earlier.reward_mean, earlier.num_scored
    FROM (
        SELECT DISTINCT t.group_id, t.route FROM trajectories AS t WHERE t.group_id = ANY (CAST(:ids AS uuid[]))
    ) AS m
    JOIN groups AS g ON g.id = m.group_id AND g.sequence > 0
    CROSS JOIN LATERAL (
        SELECT e.route, e.reward_mean, e.num_scored FROM groups AS e
        WHERE e.project_id = g.project_id AND e.policy_id = g.policy_id AND e.kind = g.kind AND e.key = g.key
            AND e.sequence < g.sequence AND e.num_scored >= {MIN_MEMBERS} AND e.route IS NOT DISTINCT FROM m.route
            AND e.state IN ('trained', 'skipped')
        ORDER BY e.sequence DESC LIMIT 1
    ) AS earlier
""")
_MEMBERS = text(
    "SELECT id, group_id, route FROM trajectories WHERE group_id = ANY (CAST(:ids AS uuid[])) ORDER BY id"
)


def claimed_groups(connection: Connection, step_id: UUID) -> list[UUID]:
    return list(connection.scalars(_CLAIMED, {"step_id": step_id}))


def found_groups(connection: Connection, group_ids: Sequence[UUID]) -> list[Group]:
    """In the order in which they began, with all that a verdict needs."""
    members, stored = _members(connection, group_ids), _stored(connection, group_ids)
    return [
        Group(row.id, GroupKind(row.kind), row.route, members[row.id], stored[row.id])
        for row in connection.execute(_GROUPS, {"ids": list(group_ids)})
    ]


def _stored(connection: Connection, group_ids: Sequence[UUID]) -> dict[UUID, dict[str | None, Stored]]:
    found: dict[UUID, dict[str | None, Stored]] = defaultdict(dict)
    for row in connection.execute(_STORED, {"ids": list(group_ids)}):
        found[row.group_id][row.route] = Stored(row.reward_mean, row.num_scored)
    return found


def _members(connection: Connection, group_ids: Sequence[UUID]) -> dict[UUID, list[Member]]:
    rows = connection.execute(_MEMBERS, {"ids": list(group_ids)}).all()
    trajectory_ids = [row.id for row in rows]
    judged = read_judged(connection, trajectory_ids)
    exchanges = whole_exchanges(connection, trajectory_ids)
    members: dict[UUID, list[Member]] = defaultdict(list)
    for row in rows:
        member = Member(row.id, judged.get(row.id, Judged()), exchanges.get(row.id, []), row.route)
        members[row.group_id].append(member)
    return members
