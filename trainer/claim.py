"""Who trains what: one step per policy, its groups taken once, held by a lease with a fencing token (I6).

Invariant: every write of a step's holder says its token; the token of a step that was taken over is never right again.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from ledger.identifiers import new_id
from ledger.policies import Policy
from ledger.rewards.late import move_late_of_steps
from ledger.step_requests import take_request
from ledger.triggers import read_situation, waits_for
from ledger.vocabulary import ACTIVE_STEP_STATES, StepKind, StepState
from trainer.adapter_names import highest_version_on_disk
from trainer.beginning import Beginning
from trainer.new_line import is_contested, live_at_beginning, next_parent
from trainer.ready import groups_now, with_room
from trainer.requested import requested
from trainer.scored import ScoredGroups
from trainer.settings import TrainerSettings

_COLUMNS = (
    "id, policy_id, version, parent_version, state, attempt, fencing_token, seed, settings, metrics, kind"
)
ACTIVE = ", ".join(f"'{state}'" for state in ACTIVE_STEP_STATES)

RESUMABLE = text(
    f"SELECT id FROM training_steps WHERE policy_id = :policy_id AND state IN ({ACTIVE})"
    " AND (lease_expires_at IS NULL OR lease_expires_at < clock_timestamp()) FOR UPDATE SKIP LOCKED"
)
# An owner that is still named, and is not us, died with the lease; one that gave it up took its name away.
TAKE_OVER = text(
    "UPDATE training_steps SET fencing_token = fencing_token + 1, lease_owner = :owner,"
    " attempt = attempt + CASE WHEN lease_owner <> :owner AND state <> 'saved' THEN 1 ELSE 0 END,"
    " lease_expires_at = clock_timestamp() + make_interval(secs => :lease_seconds), updated_at = clock_timestamp()"
    f" WHERE id = :id RETURNING {_COLUMNS}"
)
HAS_ACTIVE = text(f"SELECT 1 FROM training_steps WHERE policy_id = :policy_id AND state IN ({ACTIVE})")
# `failed` before `saved` frees its number, unless its adapter got a name on disk (see next_version).
HIGHEST = text(
    "SELECT greatest((SELECT coalesce(max(version), 0) FROM policy_versions WHERE policy_id = :policy_id),"
    " (SELECT coalesce(max(version), 0) FROM training_steps WHERE policy_id = :policy_id"
    "   AND state NOT IN ('failed', 'skipped')))"
)
BEGIN = text(
    "INSERT INTO training_steps (id, policy_id, version, parent_version, state, lease_owner, lease_expires_at, seed,"
    " settings, kind, metrics) VALUES (:id, :policy_id, :version, :parent_version, 'claimed', :owner,"
    " clock_timestamp() + make_interval(secs => :lease_seconds), :seed, CAST(:settings AS jsonb), :kind,"
    " CAST(:metrics AS jsonb))"
    f" ON CONFLICT (policy_id) WHERE state IN ({ACTIVE}) DO NOTHING RETURNING {_COLUMNS}"
)
LOCK_POLICY = text(
    "SELECT live_version, paused_at IS NOT NULL AS is_paused FROM policies WHERE id = :policy_id FOR NO KEY UPDATE"
)
LOCK_GROUPS = text(
    "SELECT id FROM groups WHERE id = ANY(:group_ids) AND state = 'open' ORDER BY id FOR UPDATE SKIP LOCKED"
)
TAKE_GROUPS = text("UPDATE groups SET state = 'claimed', step_id = :step_id WHERE id = ANY(:group_ids)")


@dataclass(frozen=True, slots=True)
class Step:
    """A row of training_steps as its holder knows it."""

    id: UUID
    policy_id: UUID
    version: int
    parent_version: int
    state: StepState
    attempt: int
    fencing_token: int
    seed: int
    settings: dict[str, Any]
    metrics: dict[str, Any]
    kind: StepKind = StepKind.GRPO

    @property
    def live_version(self) -> int:
        """Live when it began: its parent, but where a new line begins at the base."""
        return live_at_beginning(self.parent_version, self.metrics)


def resume(connection: Connection, policy: Policy, settings: TrainerSettings, owner: str) -> Step | None:
    """Take over the policy's unfinished step if nobody holds it: token + 1, and attempt + 1 if its holder died."""
    found = connection.execute(RESUMABLE, {"policy_id": policy.id}).scalar_one_or_none()
    if found is None:
        return None
    values = {"id": found, "owner": owner, "lease_seconds": settings.lease_seconds}
    return _step(connection.execute(TAKE_OVER, values).one())


def claim(
    connection: Connection, policy: Policy, settings: TrainerSettings, owner: str, scored: ScoredGroups
) -> Step | None:
    """Begin the step that somebody asked for, or one on the groups that are ready, if it is time."""
    locked = connection.execute(LOCK_POLICY, {"policy_id": policy.id}).one()
    if connection.execute(HAS_ACTIVE, {"policy_id": policy.id}).first():
        return None
    among = scored.among(connection, policy.id, also=move_late_of_steps(connection, policy.id))
    asked = requested(connection, policy, settings, among, is_paused=locked.is_paused)
    if asked is not None:
        request, beginning = asked
        step = _begin(connection, policy, locked.live_version, settings, owner, beginning)
        if step is not None:
            take_request(connection, request.id, step.id)
        return step
    ready = groups_now(connection, policy.id, settings, among)
    if waits_for(settings.triggers(), read_situation(connection, policy.id, ready)):
        return None
    taken = tuple(group.group_id for group in with_room(ready, settings))
    due = Beginning(StepKind.GRPO, settings.learning(), taken)
    return _begin(connection, policy, locked.live_version, settings, owner, due)


def next_version(connection: Connection, policy: Policy, settings: TrainerSettings) -> int:
    """One above every number that was ever saved or is in use: in Postgres, or as a directory (I7)."""
    in_ledger: int = connection.execute(HIGHEST, {"policy_id": policy.id}).scalar_one()
    return max(in_ledger, highest_version_on_disk(settings.adapters, policy.line)) + 1


def _begin(
    connection: Connection,
    policy: Policy,
    live_version: int,
    settings: TrainerSettings,
    owner: str,
    beginning: Beginning,
) -> Step | None:
    """None where it wants groups and somebody else has them all, or where the newest worker would not begin this line."""
    group_ids = list(connection.execute(LOCK_GROUPS, {"group_ids": list(beginning.group_ids)}).scalars())
    own = settings.with_learning(beginning.settings)
    parent = next_parent(connection, policy, live_version, own)
    is_refused = parent.is_new_line and is_contested(connection, policy, own)
    if is_refused or (beginning.group_ids and not group_ids):
        return None
    version = next_version(connection, policy, settings)
    values = {
        "id": new_id(),
        "policy_id": policy.id,
        "version": version,
        "parent_version": parent.version,
        "owner": owner,
        "lease_seconds": settings.lease_seconds,
        "seed": settings.seed * 1_000_003 + version,
        "settings": json.dumps(beginning.settings),
        "kind": beginning.kind,
        "metrics": json.dumps(parent.metrics),
    }
    row = connection.execute(BEGIN, values).one_or_none()
    if row is None:
        return None
    connection.execute(TAKE_GROUPS, {"step_id": row.id, "group_ids": group_ids})
    return _step(row)


def _step(row: Row[Any]) -> Step:
    values = dict(row._mapping)  # noqa: SLF001 - public, despite its underscore
    return Step(**(values | {"state": StepState(values["state"]), "kind": StepKind(values["kind"])}))
