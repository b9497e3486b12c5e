"""What open groups wait for, and until when. The conditions are those of ledger.groups.readiness, asked for one group or for many.

Invariant: a moment here is one that a group reaches by itself; what only somebody's reward can bring has none.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from ledger.groups.readiness import CANDIDATES, Readiness, ready_groups
from ledger.triggers import Triggers, read_situation, what_is_missing
from ledger.vocabulary import GroupKind, GroupWaitsFor
from ledger.workers import Worker, worker_of

_TOLD = {
    "grace_seconds": "group_grace_seconds",
    "deadline_seconds": "group_deadline_seconds",
    "min_samples": "baseline_min_samples",
    "has_running": "running_baseline",
}
_OPEN = text(f"""
    {CANDIDATES}
    SELECT id AS group_id, kind, size, route, num_members, num_scored, created_at, is_ready, is_final, is_quiet, is_lone,
        has_stored, num_baseline_samples, changed_at + make_interval(secs => :grace) AS quiet_at,
        expected_at + make_interval(secs => :deadline) AS late_at
    FROM candidates
    WHERE CAST(:group_id AS uuid) IS NULL OR id = CAST(:group_id AS uuid)
    ORDER BY created_at, id LIMIT :limit
""")  # noqa: S608 - a constant
_UNSCORED = text("""
    SELECT g.id AS group_id, g.kind, g.size, g.route, g.created_at, m.num_members
    FROM groups AS g
    CROSS JOIN LATERAL (SELECT count(*) AS num_members FROM trajectories AS t WHERE t.group_id = g.id) AS m
    WHERE g.id = :group_id
""")


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """Example: 4 choices, 3 of them scored -> waits_for (scores, grace), ready_at = the end of its grace period."""

    group_id: UUID
    kind: GroupKind
    size: int | None
    route: str | None
    num_members: int
    num_scored: int
    created_at: datetime
    is_ready: bool
    waits_for: tuple[GroupWaitsFor, ...]
    ready_at: (
        datetime | None
    )  # when it is ready if nothing more comes; None: not before a reward does, or it is already
    num_baseline_samples: int | None  # of its route, where one reward is compared with them


def readiness_of(worker: Worker) -> Readiness:
    """By the settings that the worker told of: grace and deadline always; an older worker did not know the baselines."""
    told = {name: worker.settings[field] for name, field in _TOLD.items() if field in worker.settings}
    return Readiness(**told)


def scored_groups(connection: Connection, policy_id: UUID, when: Readiness, *, limit: int) -> list[OpenGroup]:
    """The policy's open groups with a scored member, oldest first, ready or not."""
    values = {**when.values(policy_id), "group_id": None, "limit": limit}
    return [_open_group(row, when) for row in connection.execute(_OPEN, values)]


def open_group(connection: Connection, policy_id: UUID, group_id: UUID, when: Readiness) -> OpenGroup:
    """One that is open."""
    values = {**when.values(policy_id), "group_id": group_id, "limit": 1}
    row = connection.execute(_OPEN, values).one_or_none()
    if row is not None:
        return _open_group(row, when)
    row = connection.execute(_UNSCORED, {"group_id": group_id}).one()
    return OpenGroup(
        row.group_id, GroupKind(row.kind), row.size, row.route, row.num_members, 0, row.created_at,
        is_ready=False, waits_for=(GroupWaitsFor.SCORES,), ready_at=None, num_baseline_samples=None,
    )  # fmt: skip


def next_step(connection: Connection, policy_id: UUID) -> dict[str, Any] | None:
    """What is missing until the next step of the policy; None = no worker was ever started for it."""
    worker = worker_of(connection, policy_id)
    if worker is None:
        return None
    triggers = Triggers.of(worker.settings)
    ready = ready_groups(connection, policy_id, readiness_of(worker), limit=triggers.step_max_groups)
    situation = read_situation(connection, policy_id, ready)
    return {
        "worker_seen_at": worker.seen_at,
        "num_ready": len(ready),
        **what_is_missing(triggers, situation),
    }


def _open_group(row: Row[Any], when: Readiness) -> OpenGroup:
    is_compared = not row.is_lone or row.has_stored or _has_baseline(row, when)
    waits_for = tuple(_waits_for(row, is_compared=is_compared))
    ready_at = row.quiet_at if row.is_final and is_compared else row.late_at
    return OpenGroup(
        row.group_id, GroupKind(row.kind), row.size, row.route, row.num_members, row.num_scored, row.created_at,
        is_ready=row.is_ready, waits_for=waits_for, ready_at=None if row.is_ready else min(ready_at, row.late_at),
        num_baseline_samples=row.num_baseline_samples if row.is_lone else None,
    )  # fmt: skip


def _has_baseline(row: Row[Any], when: Readiness) -> bool:
    return when.has_running and row.route is not None and row.num_baseline_samples >= when.min_samples


def _waits_for(row: Row[Any], *, is_compared: bool) -> list[GroupWaitsFor]:
    if row.is_ready:
        return [GroupWaitsFor.STEP]
    conditions = {
        GroupWaitsFor.SCORES: row.num_scored < row.num_members,
        GroupWaitsFor.FINAL: not row.is_final,
        GroupWaitsFor.MEMBERS: row.size is not None and row.num_members < row.size,
        GroupWaitsFor.BASELINE: not is_compared,
        GroupWaitsFor.GRACE: row.is_final and is_compared and not row.is_quiet,
    }
    return [word for word, holds in conditions.items() if holds]
