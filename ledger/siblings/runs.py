"""Sibling runs in Postgres: which trajectory gets shadow siblings, who works on it, and what it cost.

Invariant: a trajectory has one run, and one worker at a time has one of all runs (docs/decisions/0017-shadow-siblings.md).
Every write asks for the lease's owner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from ledger.identifiers import derived_call_id, first_id_at, new_id
from ledger.vocabulary import SiblingReason, SiblingRunState

_ALONE = text("SELECT pg_advisory_xact_lock(hashtextextended('slipstream sibling runs', 0))")
_IS_HELD = text(
    "SELECT EXISTS (SELECT FROM sibling_runs WHERE finished_at IS NULL AND lease_expires_at > now())"
)
_COLUMNS = "id, project_id, policy_id, trajectory_id, exchange_id, group_id, sibling_ids, state, num_attempts"
_TAKE = text(f"""
    UPDATE sibling_runs SET lease_owner = :owner, lease_expires_at = now() + make_interval(secs => :seconds)
    WHERE id = (
        SELECT id FROM sibling_runs
        WHERE finished_at IS NULL AND next_at <= now() AND policy_id = ANY (CAST(:policy_ids AS uuid[]))
            AND state = ANY (CAST(:states AS text[]))
        ORDER BY next_at LIMIT 1
    ) RETURNING {_COLUMNS}
""")  # noqa: S608 - a constant
# Of the newest rewards, so that a look costs the same whatever the traffic; their versions are the likeliest to be served.
_NEWEST_REWARDS = 1000
# Aggregates of one row: an EXISTS would become a join with the rewards of all trajectories.
_LONE = text(f"""
    WITH rewarded AS MATERIALIZED (
        SELECT id, trajectory_id FROM reward_events
        WHERE id >= :first_id AND trajectory_id IS NOT NULL ORDER BY id DESC LIMIT {_NEWEST_REWARDS}
    )
    SELECT g.project_id, g.policy_id, g.id AS group_id, t.id AS trajectory_id, e.id AS exchange_id
    FROM rewarded
    JOIN trajectories AS t ON t.id = rewarded.trajectory_id
    JOIN groups AS g ON g.id = t.group_id
    JOIN exchanges AS e ON e.trajectory_id = t.id
    WHERE g.state = 'open' AND g.kind = 'prompt' AND g.policy_id = ANY (CAST(:policy_ids AS uuid[]))
        AND e.is_trainable AND NOT e.is_shadow AND t.erased_at IS NULL
        AND e.endpoint IN ('/v1/chat/completions', '/v1/completions')
        AND NOT EXISTS (SELECT FROM trajectories AS other WHERE other.group_id = g.id AND other.id <> t.id)
        AND NOT EXISTS (SELECT FROM exchanges AS other WHERE other.trajectory_id = t.id AND other.id <> e.id)
        AND (SELECT bool_or(r.is_final) FROM v1.trajectory_rewards AS r WHERE r.trajectory_id = t.id)
        AND NOT EXISTS (SELECT FROM sibling_runs AS run WHERE run.trajectory_id = t.id)
    ORDER BY rewarded.id DESC LIMIT 1
""")  # noqa: S608 - a constant
# What is recorded already is scored; with nothing of it there is nothing to do.
_GIVE_UP = text("""
    UPDATE sibling_runs AS run SET num_attempts = 0, next_at = now(),
        state = CASE WHEN found.is_any THEN 'scoring' ELSE 'dropped' END,
        reason = CASE WHEN found.is_any THEN NULL ELSE 'too_old' END,
        finished_at = CASE WHEN found.is_any THEN NULL ELSE now() END
    FROM (
        SELECT old.id, EXISTS (SELECT FROM trajectories AS t WHERE t.id = ANY (old.sibling_ids)) AS is_any
        FROM sibling_runs AS old
        WHERE old.finished_at IS NULL AND old.state = 'sampling' AND old.created_at < now() - make_interval(secs => :age)
    ) AS found WHERE run.id = found.id
""")
_BEGIN = text(f"""
    INSERT INTO sibling_runs (id, project_id, policy_id, trajectory_id, exchange_id, group_id, sibling_ids, state,
        lease_owner, lease_expires_at)
    VALUES (:id, :project_id, :policy_id, :trajectory_id, :exchange_id, :group_id, CAST(:sibling_ids AS uuid[]),
        'sampling', :owner, now() + make_interval(secs => :seconds))
    ON CONFLICT DO NOTHING RETURNING {_COLUMNS}
""")  # noqa: S608 - a constant
_IS_OURS = "WHERE id = :id AND lease_owner = :owner AND lease_expires_at > now() AND finished_at IS NULL"
_RENEW = text(f"""
    UPDATE sibling_runs SET lease_expires_at = now() + make_interval(secs => :seconds),
        num_attempts = num_attempts + :num_attempts, num_tokens = num_tokens + :num_tokens {_IS_OURS}
""")  # noqa: S608 - a constant
_SETTLE = text(f"""
    UPDATE sibling_runs SET num_attempts = 0, num_tokens = num_tokens + :num_tokens {_IS_OURS}
""")  # noqa: S608 - a constant
_PUT_OFF = text(f"""
    UPDATE sibling_runs SET lease_owner = NULL, lease_expires_at = NULL, state = :state, num_attempts = :num_attempts,
        next_at = now() + make_interval(secs => :seconds) {_IS_OURS}
""")  # noqa: S608 - a constant
_END = text(f"""
    UPDATE sibling_runs SET lease_owner = NULL, lease_expires_at = NULL, state = :state, reason = :reason,
        finished_at = now() {_IS_OURS}
""")  # noqa: S608 - a constant
# A run that goes on after midnight counts on both days: rather too much. It begins at most its age before what it spends.
_SPENT = text("""
    SELECT coalesce(sum(num_tokens), 0) FROM sibling_runs
    CROSS JOIN (SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS midnight) AS today
    WHERE created_at >= midnight - make_interval(secs => :age) - INTERVAL '1 day'
        AND (finished_at IS NULL OR finished_at >= midnight)
""")
_RECORDED = text("SELECT id FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[]))")
_UNSCORED = text("""
    SELECT t.id FROM trajectories AS t WHERE t.id = ANY (CAST(:ids AS uuid[])) AND t.erased_at IS NULL
        AND (SELECT count(*) FROM v1.trajectory_rewards AS r WHERE r.trajectory_id = t.id) = 0
    ORDER BY t.id
""")


class LeaseLostError(Exception):
    """Another worker has the run now: whatever was on its way is undone."""


@dataclass(frozen=True, slots=True)
class SiblingRun:
    """Example: 3 siblings wanted -> 3 ids; each is the id of a trajectory and of its one exchange."""

    id: UUID
    project_id: UUID
    policy_id: UUID
    trajectory_id: UUID
    exchange_id: UUID
    group_id: UUID
    sibling_ids: list[UUID]
    state: SiblingRunState
    num_attempts: int


def take_run(
    connection: Connection,
    policy_ids: Sequence[UUID],
    owner: str,
    *,
    states: Sequence[SiblingRunState],
    lease_seconds: float,
    num_siblings: int,
    age_seconds: float,
) -> SiblingRun | None:
    """One that was begun and is due, else a new one for the newest lone trajectory (where `sampling` is among the states).

    None if there is nothing to do, or another worker holds one. What waited for longer than `age_seconds` is given up.
    """
    connection.execute(_ALONE)
    if connection.scalar(_IS_HELD):
        return None
    connection.execute(_GIVE_UP, {"age": age_seconds})
    given = {"policy_ids": list(policy_ids), "owner": owner, "seconds": lease_seconds}
    found = connection.execute(_TAKE, {**given, "states": list(states)}).one_or_none()
    if found is None and SiblingRunState.SAMPLING in states:
        lone = connection.execute(
            _LONE, {**given, "first_id": first_id_at(datetime.now(UTC) - timedelta(seconds=age_seconds))}
        ).one_or_none()
        if lone is not None:
            id_ = new_id()
            ids = [derived_call_id(id_, number) for number in range(num_siblings)]
            found = connection.execute(
                _BEGIN,
                {**given, **lone._mapping, "id": id_, "sibling_ids": ids},  # noqa: SLF001 - public
            ).one_or_none()
    return None if found is None else SiblingRun(**{**found._mapping, "state": SiblingRunState(found.state)})  # noqa: SLF001 - public


def reserve(connection: Connection, run: SiblingRun, owner: str, *, num_tokens: int, seconds: float) -> None:
    """Before something is tried: a crash then counts as a failure, and its tokens as spent. Raises LeaseLostError."""
    given = {"num_tokens": num_tokens, "num_attempts": 1, "seconds": seconds}
    _write(connection, _RENEW, run, owner, given)


def settle(connection: Connection, run: SiblingRun, owner: str, num_tokens: int) -> None:
    """It went well, and cost so many tokens more (or less) than was reserved. Raises LeaseLostError."""
    _write(connection, _SETTLE, run, owner, {"num_tokens": num_tokens})


def put_off(
    connection: Connection,
    run: SiblingRun,
    owner: str,
    *,
    state: SiblingRunState,
    num_attempts: int,
    seconds: float,
) -> None:
    """Given back until then. Raises LeaseLostError."""
    _write(
        connection, _PUT_OFF, run, owner, {"state": state, "num_attempts": num_attempts, "seconds": seconds}
    )


def end_run(connection: Connection, run: SiblingRun, owner: str, reason: SiblingReason | None = None) -> None:
    """Finished, or dropped for a reason. Raises LeaseLostError."""
    state = SiblingRunState.DROPPED if reason else SiblingRunState.FINISHED
    _write(connection, _END, run, owner, {"state": state, "reason": reason})


def tokens_of_today(connection: Connection, age_seconds: float) -> int:
    """Of the runs that something was done for since midnight (UTC). `age_seconds`: how long a run may wait."""
    return int(connection.scalar(_SPENT, {"age": age_seconds}) or 0)


def recorded_siblings(connection: Connection, run: SiblingRun) -> set[UUID]:
    return set(connection.scalars(_RECORDED, {"ids": run.sibling_ids}))


def unscored_siblings(connection: Connection, run: SiblingRun) -> list[UUID]:
    return list(connection.scalars(_UNSCORED, {"ids": run.sibling_ids}))


def _write(
    connection: Connection, statement: TextClause, run: SiblingRun, owner: str, given: dict[str, Any]
) -> None:
    if not connection.execute(statement, {**given, "id": run.id, "owner": owner}).rowcount:
        raise LeaseLostError
