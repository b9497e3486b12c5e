"""A reward on a trajectory whose group was trained, or left out: the trajectory goes on to the next group of its key.

Called in the transaction that writes the reward, once a batch, behind its events; and by the worker before a claim, for
what came while its steps were running. The projects' recording locks are held (shared at least), so are the
trajectories (FOR KEY SHARE); groups are taken by key, then trajectories changed by id.
Invariant: a trajectory whose reward a step has read stays where it is (docs/decisions/0015).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import DirectConnection, direct
from ledger.groups.grouping import GroupKey, Wanted, join_groups
from ledger.recording_lock import lock_projects
from ledger.rewards.meanings import Meaning

NUM_STEPS = 16
# A step that failed may have failed for its groups: they are not tried again.
_UNREAD = """
    SELECT t.id, t.group_id, t.route, g.project_id, g.policy_id, g.kind, g.key
    FROM groups AS g
    JOIN trajectories AS t ON t.group_id = g.id
    WHERE g.state IN ('trained', 'skipped') AND g.reason IS DISTINCT FROM 'failed' AND t.erased_at IS NULL
        AND NOT EXISTS (
            SELECT FROM step_samples AS s JOIN training_steps AS step ON step.id = s.step_id AND step.kind = 'grpo'
            WHERE s.trajectory_id = t.id AND (s.is_used OR coalesce(s.trajectory_reward, s.reward) IS NOT NULL)
        )
        AND EXISTS (SELECT FROM v1.rewards AS r WHERE r.trajectory_id = t.id AND r.is_counted)
        AND EXISTS (SELECT FROM exchanges AS e WHERE e.trajectory_id = t.id)
"""
_OF_TRAJECTORIES = text(f"{_UNREAD} AND t.id = ANY (CAST(:ids AS uuid[])) ORDER BY t.id")
_OF_STEPS = text(f"""
    {_UNREAD} AND g.step_id = ANY (ARRAY(
        SELECT s.id FROM training_steps AS s
        WHERE s.policy_id = CAST(:policy_id AS uuid) ORDER BY s.version DESC, s.id DESC LIMIT {NUM_STEPS}
    )) ORDER BY t.id
""")  # noqa: S608 - constants
_MOVE = text("""
    UPDATE trajectories AS t SET group_id = moved.group_id
    FROM unnest(CAST(:ids AS uuid[]), CAST(:left_ids AS uuid[]), CAST(:group_ids AS uuid[])) AS moved (id, left_id, group_id)
    WHERE t.id = moved.id AND t.group_id = moved.left_id
""")


@dataclass(frozen=True, slots=True)
class LateReward:
    """`group_id` is the closed group that its trajectory was in when it was looked up."""

    trajectory_id: UUID
    group_id: UUID

    @classmethod
    def of(cls, meaning: Meaning) -> Self:
        assert meaning.trajectory_id
        assert meaning.group_id
        return cls(meaning.trajectory_id, meaning.group_id)


def move_late(asked: DirectConnection, late: Sequence[LateReward]) -> None:
    """Those that no step has read a reward of go on to the open group of their key, made where there is none."""
    values = {"ids": [one.trajectory_id for one in late]}
    _move(asked, asked.execute(_OF_TRAJECTORIES, values).all())


def move_late_of_steps(connection: Connection, policy_id: UUID) -> set[UUID]:
    """What came while the policy's last steps had claimed its group: at the post it could not be told to be late.

    The groups that they are in now.
    """
    asked, values = direct(connection), {"policy_id": policy_id}
    found = asked.execute(_OF_STEPS, values).all()
    if not found:
        return set()
    lock_projects(asked, dict.fromkeys((row.project_id for row in found), False))
    return _move(asked, asked.execute(_OF_STEPS, values).all())


def _move(asked: DirectConnection, rows: Iterable[Any]) -> set[UUID]:
    keys: dict[UUID, GroupKey] = {}
    wanted: dict[GroupKey, Wanted] = {}
    left = {row.id: row.group_id for row in rows}
    for row in rows:
        key = keys[row.id] = row.project_id.int, row.policy_id.int, row.kind, row.key
        wanted.setdefault(key, Wanted(route=row.route))
    if not keys:
        return set()
    joined = join_groups(cast("Connection", asked), wanted)
    values = {
        "ids": list(keys),
        "left_ids": [left[id_] for id_ in keys],
        "group_ids": [joined[key] for key in keys.values()],
    }
    asked.execute(_MOVE, values)
    return set(joined.values())
