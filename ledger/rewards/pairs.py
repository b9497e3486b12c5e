"""Who is compared belongs in one group: two that were alone, or in groups of a prompt, get one of kind `comparison`.

Invariant: groups that a step claimed, trained or skipped keep their members, and so do those that a caller made. Groups
are locked by id, against claims, then trajectories are changed; whoever does is alone in the project, so that no recorder
holds a group while it waits for another.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import DirectConnection, direct
from ledger.identifiers import new_id
from ledger.merging import dissolve
from ledger.recording_lock import lock_projects

MOST_PAIRS = 200
_DAYS = 30  # for so long an early side is waited for
# Two that are in one group already; or each in an open group that holds a prompt's, or compared ones, or in none.
_WAITING = text(f"""
    SELECT c.id, c.project_id, t.policy_id, t.route, t.id AS one_id, t.group_id AS one_group, g.kind AS one_kind,
        u.id AS two_id, u.group_id AS two_group, h.kind AS two_kind
    FROM comparisons AS c
    JOIN reward_events AS e ON e.id = c.preferred_event_id
    JOIN reward_events AS f ON f.id = c.other_event_id
    JOIN trajectories AS t ON t.id = e.trajectory_id
    JOIN trajectories AS u ON u.id = f.trajectory_id AND u.id <> t.id AND u.policy_id = t.policy_id
    LEFT JOIN groups AS g ON g.id = t.group_id
    LEFT JOIN groups AS h ON h.id = u.group_id
    WHERE c.group_id IS NULL AND c.created_at > now() - interval '{_DAYS} days'
        AND (CAST(:ids AS uuid[]) IS NULL OR c.id = ANY (CAST(:ids AS uuid[])))
        AND NOT e.is_retraction AND NOT f.is_retraction
        AND (
            t.group_id = u.group_id
            OR (t.group_id IS NULL OR g.state = 'open' AND g.kind IN ('prompt', 'comparison'))
                AND (u.group_id IS NULL OR h.state = 'open' AND h.kind IN ('prompt', 'comparison'))
                AND EXISTS (SELECT FROM exchanges AS x WHERE x.trajectory_id = t.id AND x.is_trainable)
                AND EXISTS (SELECT FROM exchanges AS x WHERE x.trajectory_id = u.id AND x.is_trainable)
        )
    ORDER BY c.created_at, c.id LIMIT {MOST_PAIRS}
""")  # noqa: S608 - constants
_LOCK = text("SELECT id FROM groups WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id FOR NO KEY UPDATE")
_MAKE = text("""
    INSERT INTO groups (id, project_id, policy_id, kind, key, sequence, last_member_at, route)
    SELECT CAST(:id AS uuid), CAST(:project_id AS uuid), CAST(:policy_id AS uuid), 'comparison', CAST(:key AS text),
        coalesce(max(sequence) + 1, 0), now(), CAST(:route AS text)
    FROM groups WHERE project_id = :project_id AND policy_id = :policy_id AND kind = 'comparison' AND key = :key
""")
_MOVE = text("UPDATE trajectories SET group_id = :into WHERE id = ANY (CAST(:ids AS uuid[]))")
_UNITE = text("UPDATE trajectories SET group_id = :into WHERE group_id = :group_id")
_TOUCH = text("UPDATE groups SET last_member_at = now() WHERE id = :id")
_LINK = text("UPDATE comparisons SET group_id = :group_id WHERE id = :id")
COMPARISON = "comparison"


def pair_up(connection: Connection, comparison_ids: Sequence[UUID] | None = None) -> int:
    """Of these comparisons, or of all that wait and can be; how many were. Call it in a transaction, and commit."""
    asked = direct(connection)
    values = {"ids": None if comparison_ids is None else list(comparison_ids)}
    waiting = asked.execute(_WAITING, values).all()
    if not waiting:
        return 0
    lock_projects(asked, {row.project_id: True for row in waiting})
    groups = {id_ for row in waiting for id_ in (row.one_group, row.two_group) if id_}
    asked.execute(_LOCK, {"ids": list(groups)})
    paired = 0
    for seen in waiting:  # each as it stands now: the pairs before it may have moved one of its two
        for row in asked.execute(_WAITING, {"ids": [seen.id]}).all():
            if {id_ for id_ in (row.one_group, row.two_group) if id_} <= groups:
                groups.add(_pair(asked, connection, row))
                paired += 1
    return paired


def _pair(asked: DirectConnection, connection: Connection, row: Any) -> UUID:
    """The group that both are in."""
    if row.one_group is not None and row.one_group == row.two_group:
        into: UUID = row.one_group
    else:
        into = _joined(asked, row)
        asked.execute(_TOUCH, {"id": into})
        dissolve(connection, [id_ for id_ in (row.one_group, row.two_group) if id_ and id_ != into])
    asked.execute(_LINK, {"id": row.id, "group_id": into})
    return into


def _joined(asked: DirectConnection, row: Any) -> UUID:
    """A group of compared ones draws the other in; two such become one."""
    compared = [
        id_
        for id_, kind in ((row.one_group, row.one_kind), (row.two_group, row.two_kind))
        if kind == COMPARISON
    ]
    into: UUID = compared[0] if compared else new_id()
    if not compared:
        names = {"id": into, "project_id": row.project_id, "policy_id": row.policy_id}
        asked.execute(_MAKE, names | {"key": str(row.id), "route": row.route})
    for other in compared[1:]:
        asked.execute(_UNITE, {"into": into, "group_id": other})
    asked.execute(_MOVE, {"into": into, "ids": [row.one_id, row.two_id]})
    return into
