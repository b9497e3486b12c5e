"""Every change of a step's state, each one guarded UPDATE in the caller's transaction (docs/decisions/0004).

Invariant: no row updated = the lease is lost, and the whole transaction with it.
"""

import json
from math import isfinite
from typing import Any

from sqlalchemy import Connection, text

from ledger.policies import move_live
from ledger.step_requests import end_request_of
from ledger.vocabulary import Reason, StepState
from trainer.claim import ACTIVE, Step
from trainer.errors import LeaseLostError

MOVE = text(
    "UPDATE training_steps SET state = :state, metrics = metrics || CAST(:metrics AS jsonb), reason = :reason,"
    " updated_at = clock_timestamp(),"
    " finished_at = CASE WHEN :is_final THEN clock_timestamp() END,"
    " lease_owner = CASE WHEN :is_final THEN NULL ELSE lease_owner END,"
    " lease_expires_at = CASE WHEN :is_final THEN NULL ELSE lease_expires_at END"
    " WHERE id = :id AND fencing_token = :token AND state = ANY(:from_states)"
)
HOLD = text("SELECT 1 FROM training_steps WHERE id = :id AND fencing_token = :token FOR UPDATE")
GIVE_UP = text(
    "UPDATE training_steps SET lease_owner = NULL, reason = :reason,"
    " attempt = attempt + CASE WHEN :is_counted THEN 1 ELSE 0 END,"
    " metrics = metrics || CAST(:metrics AS jsonb),"
    " lease_expires_at = clock_timestamp() + make_interval(secs => :wait_seconds), updated_at = clock_timestamp()"
    f" WHERE id = :id AND fencing_token = :token AND state IN ({ACTIVE})"
)
CLOSE_CLAIMED = text(
    "UPDATE groups SET state = :state, reason = :reason WHERE step_id = :id AND state = 'claimed'"
)
CLOSE_SOME = text(
    "UPDATE groups SET state = 'skipped', reason = :reason WHERE step_id = :id AND id = ANY(:group_ids)"
)
GIVE_BACK = text(
    "UPDATE groups SET state = 'open', step_id = NULL WHERE step_id = :id AND id = ANY(:group_ids)"
)
INSERT_VERSION = text(
    "INSERT INTO policy_versions (policy_id, version, parent_version, state, adapter_path, adapter_sha256,"
    " lora_rank, lora_alpha)"
    " VALUES (:policy_id, :version, :parent_version, 'saved', :adapter_path, :sha256, :lora_rank, :lora_alpha)"
    " ON CONFLICT (policy_id, version) DO NOTHING"
)
SET_VERSION = text(
    "UPDATE policy_versions SET state = :state,"
    " published_at = CASE WHEN :state = 'published' THEN coalesce(published_at, clock_timestamp()) ELSE published_at END"
    " WHERE policy_id = :policy_id AND version = :version"
)
_FINAL = (StepState.PUBLISHED, StepState.FAILED, StepState.SKIPPED)
_UNSAVED = [StepState.CLAIMED, StepState.BUILT, StepState.UPDATED]


def move(
    connection: Connection,
    step: Step,
    state: StepState,
    from_states: list[StepState],
    *,
    metrics: dict[str, Any] | None = None,
    reason: str | None = None,
) -> None:
    """The guarded UPDATE. Raises LeaseLostError if the step is not ours, or not where we think it is."""
    values = {
        "id": step.id,
        "token": step.fencing_token,
        "state": state,
        "from_states": [str(known) for known in from_states],
        "metrics": recorded(metrics),
        "reason": reason,
        "is_final": state in _FINAL,
    }
    if connection.execute(MOVE, values).rowcount != 1:
        raise LeaseLostError
    if state in _FINAL:
        end_request_of(connection, step.id, reason)


def recorded(metrics: dict[str, Any] | None) -> str:
    """As JSON: a figure that is not finite is null, since jsonb knows no infinity (and exp of a log-ratio may be one)."""
    return json.dumps({name: _finite(value) for name, value in (metrics or {}).items()})


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value


def hold(connection: Connection, step: Step) -> None:
    """Nobody takes the step over until this transaction ends: what is done to files meanwhile is fenced as well.

    Raises LeaseLostError if somebody did already.
    """
    if connection.execute(HOLD, {"id": step.id, "token": step.fencing_token}).first() is None:
        raise LeaseLostError


def to_updated(connection: Connection, step: Step, metrics: dict[str, Any]) -> None:
    move(connection, step, StepState.UPDATED, [StepState.BUILT, StepState.UPDATED], metrics=metrics)


def to_saved(
    connection: Connection, step: Step, adapter_path: str, sha256: str, metrics: dict[str, Any]
) -> None:
    """The version exists from here on: its number and its name are never used again (I7)."""
    move(connection, step, StepState.SAVED, _UNSAVED, metrics=metrics)
    version = {"policy_id": step.policy_id, "version": step.version, "parent_version": step.parent_version}
    shape = {name: step.settings.get(name) for name in ("lora_rank", "lora_alpha")}
    files = {"adapter_path": adapter_path, "sha256": sha256}
    connection.execute(INSERT_VERSION, {**version, **files, **shape})


def to_published(connection: Connection, step: Step, metrics: dict[str, Any]) -> None:
    """Live moves, and with it everything that says so: one transaction."""
    move(connection, step, StepState.PUBLISHED, [StepState.SAVED], metrics=metrics)
    version = {"policy_id": step.policy_id, "version": step.version}
    connection.execute(SET_VERSION, {**version, "state": "published"})
    connection.execute(CLOSE_CLAIMED, {"id": step.id, "state": "trained", "reason": None})
    move_live(connection, step.policy_id, step.version)


def to_skipped(connection: Connection, step: Step, metrics: dict[str, Any], reason: str) -> None:
    """Nothing to learn: no version. The groups have been closed with their own reasons."""
    move(connection, step, StepState.SKIPPED, [StepState.CLAIMED], metrics=metrics, reason=reason)


def to_skipped_as_erased(connection: Connection, step: Step, reason: str) -> None:
    """All that a built step would have learned from was erased meanwhile."""
    move(connection, step, StepState.SKIPPED, [StepState.BUILT, StepState.UPDATED], reason=reason)
    connection.execute(CLOSE_CLAIMED, {"id": step.id, "state": "skipped", "reason": Reason.ERASED})


def to_failed(connection: Connection, step: Step, reason: str, metrics: dict[str, Any] | None = None) -> None:
    """Set the step aside; its groups are not tried again. Live stays where it is."""
    move(connection, step, StepState.FAILED, [*_UNSAVED, StepState.SAVED], metrics=metrics, reason=reason)
    version = {"policy_id": step.policy_id, "version": step.version}
    if step.state is StepState.SAVED:
        connection.execute(SET_VERSION, {**version, "state": "failed"})
    connection.execute(CLOSE_CLAIMED, {"id": step.id, "state": "skipped", "reason": Reason.FAILED})


def give_up(
    connection: Connection,
    step: Step,
    reason: str | None,
    *,
    wait_seconds: float = 0.0,
    is_counted: bool = False,
    metrics: dict[str, Any] | None = None,
) -> None:
    """Let another tick go on after `wait_seconds`. `is_counted`: this attempt failed."""
    values = {
        "id": step.id,
        "token": step.fencing_token,
        "reason": reason,
        "wait_seconds": wait_seconds,
        "is_counted": is_counted,
        "metrics": recorded(metrics),
    }
    connection.execute(GIVE_UP, values)
