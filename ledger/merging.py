"""Trajectories that are recorded as two and prove to be one. Only a recorder that is alone does this.

Invariant: what a step has claimed, trained or skipped keeps its trajectories and its members. Whoever judges a
trajectory holds its row (ledger.rewards.reading), so no reward is left behind under an id that is gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.bulk import insert_rows
from ledger.tables import trajectory_names

_LOCK_GROUPS = text("""
    SELECT g.id, g.state FROM groups AS g
    WHERE g.id IN (SELECT t.group_id FROM trajectories AS t WHERE t.id = ANY (CAST(:ids AS uuid[])))
    ORDER BY g.id FOR NO KEY UPDATE
""")
_CLOSED = text("""
    SELECT t.id FROM trajectories AS t JOIN groups AS g ON g.id = t.group_id
    WHERE t.id = ANY (CAST(:ids AS uuid[])) AND g.state <> 'open'
""")
_BEGAN = text("""
    SELECT wanted.id, first.id AS exchange_id FROM unnest(CAST(:ids AS uuid[])) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT e.id FROM exchanges AS e WHERE e.trajectory_id = wanted.id ORDER BY e.id LIMIT 1
    ) AS first
""")
_LEAVE = text("""
    UPDATE trajectories AS t SET group_id = NULL
    FROM trajectories AS before
    WHERE t.id = ANY (CAST(:ids AS uuid[])) AND before.id = t.id AND before.group_id IS NOT NULL
        AND (CAST(:is_forced AS boolean) OR NOT EXISTS (SELECT FROM exchanges AS e WHERE e.trajectory_id = t.id AND e.is_trainable))
    RETURNING before.group_id
""")
_DISSOLVE = text("""
    DELETE FROM groups AS g WHERE g.id = ANY (CAST(:ids AS uuid[])) AND g.state = 'open'
        AND NOT EXISTS (SELECT FROM trajectories AS t WHERE t.group_id = g.id)
""")
_HOLD = text("SELECT id FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE")
_PAIRS = "unnest(CAST(:ids AS uuid[]), CAST(:into AS uuid[])) AS merged (id, into_id)"
_MOVE = [
    text(
        f"UPDATE {table} AS x SET trajectory_id = merged.into_id FROM {_PAIRS} WHERE x.trajectory_id = merged.id"  # noqa: S608 - names of our own tables
    )
    for table in ("exchanges", "reward_events")
]
_NAMES = text(f"""
    UPDATE trajectory_names AS n SET trajectory_id = merged.into_id FROM {_PAIRS} WHERE n.trajectory_id = merged.id
""")  # noqa: S608 - constants
_INHERIT = text(f"""
    UPDATE trajectories AS t SET group_id = merged.group_id
    FROM (
        SELECT DISTINCT ON (merged.into_id) merged.into_id, gone.group_id
        FROM {_PAIRS} JOIN trajectories AS gone ON gone.id = merged.id
        WHERE gone.group_id IS NOT NULL
        ORDER BY merged.into_id, gone.id
    ) AS merged
    WHERE t.id = merged.into_id AND t.group_id IS NULL
""")  # noqa: S608 - constants
_GO = text("DELETE FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[])) RETURNING group_id")


def lock_groups(connection: Connection, trajectory_ids: Sequence[UUID]) -> set[UUID]:
    """Hold back claims of these trajectories' groups; those trajectories whose group is not open any more."""
    connection.execute(_LOCK_GROUPS, {"ids": list(trajectory_ids)})
    return set(connection.scalars(_CLOSED, {"ids": list(trajectory_ids)}))


def first_exchanges(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """The first recorded exchange of each trajectory."""
    rows = connection.execute(_BEGAN, {"ids": list(trajectory_ids)})
    return {row.id: row.exchange_id for row in rows}


def leave_groups(connection: Connection, ids: Iterable[UUID], *, is_forced: bool = False) -> list[UUID]:
    """Trajectories without a trainable exchange (or all) leave their open groups; the groups that they left."""
    values = {"ids": list(ids), "is_forced": is_forced}
    return list(connection.scalars(_LEAVE, values)) if values["ids"] else []


def name_merged(connection: Connection, project_of: Mapping[UUID, UUID], into: Mapping[UUID, UUID]) -> None:
    """The ids that were given out stay valid, as names, and the names that callers gave them."""
    if not into:
        return
    connection.execute(_NAMES, {"ids": sorted(into), "into": [into[id_] for id_ in sorted(into)]})
    rows = [
        {"project_id": project_of[id_], "name": str(id_), "trajectory_id": into[id_]} for id_ in sorted(into)
    ]
    insert_rows(connection, trajectory_names, rows)


def merge(connection: Connection, into: Mapping[UUID, UUID]) -> list[UUID]:
    """Everything of recorded trajectories moves to the one that stays; the groups that may have nobody left."""
    if not into:
        return []
    values = {"ids": sorted(into), "into": [into[id_] for id_ in sorted(into)]}
    connection.execute(_HOLD, values)
    connection.execute(_INHERIT, values)
    for statement in _MOVE:
        connection.execute(statement, values)
    return [id_ for id_ in connection.scalars(_GO, values) if id_]


def dissolve(connection: Connection, group_ids: Sequence[UUID]) -> None:
    """An open group that nobody is left in is as if it had never been."""
    if group_ids:
        connection.execute(_DISSOLVE, {"ids": list(group_ids)})
