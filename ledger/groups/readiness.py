"""When a group can be trained: scored, and as complete as it will be. Asking changes nothing; a claim does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import Question
from ledger.groups.tokens import tokens_of
from ledger.vocabulary import GroupKind

MIN_SCORED = 2
MOST_NUDGED = 256
# What every condition is made of, once: which of a policy's open groups with a scored member are ready, and why.
CANDIDATES = f"""
    WITH scored AS MATERIALIZED (
        SELECT g.id, g.project_id, g.policy_id, g.kind, g.key, g.sequence, g.size, g.created_at, m.*,
            greatest(g.last_member_at, m.last_rewarded_at) AS changed_at,
            greatest(g.created_at, m.first_rewarded_at) AS expected_at
        FROM groups AS g
        CROSS JOIN LATERAL (
            SELECT count(*) AS num_members, count(one.reward) AS num_scored, bool_and(one.is_final) AS is_final,
                max(one.last_rewarded_at) AS last_rewarded_at,
                min((  -- the first that could count, though another took its place: what is changed steadily is late, too
                    SELECT min(j.created_at) FROM public.judgements AS j
                    WHERE j.trajectory_id = t.id AND NOT j.is_retraction AND j.value IS NOT NULL AND j.weight > 0
                )) FILTER (WHERE one.reward IS NOT NULL) AS first_rewarded_at,
                max(t.route) FILTER (WHERE one.reward IS NOT NULL) AS route
            FROM trajectories AS t
            CROSS JOIN LATERAL (  -- of one row: as aggregates, the view is asked for this trajectory alone
                SELECT max(r.reward) AS reward, bool_and(r.is_final) AS is_final,
                    max(r.last_rewarded_at) AS last_rewarded_at
                FROM v1.trajectory_rewards AS r WHERE r.trajectory_id = t.id
            ) AS one
            WHERE t.group_id = g.id
        ) AS m
        WHERE g.policy_id = :policy_id AND g.state = 'open' AND m.num_scored > 0
            AND (CAST(:among AS uuid[]) IS NULL OR g.id = ANY (CAST(:among AS uuid[])))
            AND EXISTS (  -- found in no time, and so spares the view most groups
                SELECT FROM trajectories AS t JOIN reward_events AS e ON e.trajectory_id = t.id WHERE t.group_id = g.id
            )
    ), timed AS (
        SELECT s.*,
            s.is_final AND s.num_scored = s.num_members AND s.num_members >= s.size AS is_complete,
            s.is_final AND s.changed_at <= now() - make_interval(secs => :grace) AS is_quiet,
            s.expected_at <= now() - make_interval(secs => :deadline) AS is_late,
            s.num_scored < {MIN_SCORED} AS is_lone,
            s.num_scored < {MIN_SCORED} AND s.sequence > 0 AND EXISTS (
                SELECT FROM groups AS e
                WHERE e.project_id = s.project_id AND e.policy_id = s.policy_id AND e.kind = s.kind AND e.key = s.key
                    AND e.sequence < s.sequence AND e.num_scored >= {MIN_SCORED} AND e.route IS NOT DISTINCT FROM s.route
                    AND e.state IN ('trained', 'skipped')
            ) AS has_stored
        FROM scored AS s
    ), counted AS (
        SELECT t.*, coalesce(b.num_samples, 0) - 1
            + count(*) FILTER (WHERE t.is_lone AND t.is_quiet AND NOT t.has_stored) OVER (PARTITION BY t.route)
            AS num_baseline_samples
        FROM timed AS t
        LEFT JOIN route_baselines AS b ON b.policy_id = t.policy_id AND b.route = t.route
    ), candidates AS (
        SELECT c.*, c.is_late OR coalesce(c.is_complete, false) OR c.is_quiet AND (
            NOT c.is_lone OR c.has_stored
            OR CAST(:has_running AS boolean) AND c.route IS NOT NULL AND c.num_baseline_samples >= :min_samples
        ) AS is_ready
        FROM counted AS c
    )
"""  # noqa: S608 - a constant
_READY = text(f"""
    {CANDIDATES}
    SELECT id AS group_id, kind, num_members, num_scored, created_at,
        CASE WHEN is_late THEN expected_at ELSE changed_at END AS waiting_since
    FROM candidates
    WHERE is_ready ORDER BY created_at, id LIMIT :limit
""")  # noqa: S608 - a constant
_LONE = text(f"""
    {CANDIDATES}
    SELECT id FROM (
        SELECT c.id, row_number() OVER (PARTITION BY c.route ORDER BY c.created_at, c.id) AS place
        FROM candidates AS c
        WHERE c.is_lone AND c.is_quiet AND NOT c.has_stored AND c.route = ANY (CAST(:routes AS text[]))
            AND c.id <> ALL (CAST(:taken AS uuid[]))
    ) AS waiting
    WHERE place <= :limit ORDER BY id
""")  # noqa: S608 - a constant
_AS_READ = ("group_id", "num_members", "num_scored", "created_at", "waiting_since")
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
    waiting_since: datetime  # when its newest member came or was judged; of a late one, when its first was
    num_tokens: int = 0  # completion tokens of its judged members that can be trained


@dataclass(frozen=True, slots=True)
class Readiness:
    """When groups are ready: docs/decisions/0015. `min_samples`: of a route, for a lone reward."""

    grace_seconds: float
    deadline_seconds: float
    min_samples: int = 4
    has_running: bool = True  # whether there is a running baseline to compare a lone reward with

    def values(self, policy_id: UUID, among: Sequence[UUID] | None = None) -> dict[str, object]:
        """What `CANDIDATES` asks for. `among`: no other groups are looked at."""
        return {
            "policy_id": policy_id,
            "among": None if among is None else list(among),
            "grace": self.grace_seconds,
            "deadline": self.deadline_seconds,
            "min_samples": self.min_samples,
            "has_running": self.has_running,
        }


def ready_groups(
    connection: Connection,
    policy_id: UUID,
    when: Readiness,
    *,
    limit: int,
    among: Sequence[UUID] | None = None,
) -> list[ReadyGroup]:
    """Open groups that a step can take, oldest first: scored, and as complete as they will be.

    Complete: all are scored, finally, and the declared size is reached. Else nobody came and no judgement came or was
    changed for a grace period, and there are two scored ones, or one whose route, or earlier group, it can be compared
    with. At the deadline after the first judgement: whatever is there; the step says what becomes of it.
    """
    wanted = {**when.values(policy_id, among), "limit": limit}
    found = [
        ReadyGroup(kind=GroupKind(row.kind), **{n: getattr(row, n) for n in _AS_READ})
        for row in connection.execute(_READY, wanted)
    ]
    num_tokens = tokens_of(connection, [group.group_id for group in found]) if found else {}
    return [replace(group, num_tokens=num_tokens.get(group.group_id, 0)) for group in found]


def lone_groups(
    connection: Connection,
    policy_id: UUID,
    when: Readiness,
    routes: Iterable[str],
    *,
    taken: Iterable[UUID],
    limit: int,
) -> list[UUID]:
    """The lone rewards of these routes that readiness counts and a step does not take: at most `limit` a route, oldest first."""
    values = {**when.values(policy_id), "routes": sorted(routes), "taken": list(taken), "limit": limit}
    return list(connection.scalars(_LONE, values))


def may_be_complete(group_ids: Iterable[UUID]) -> Question:
    """Which of these open groups have no member that nobody judged. No more than `MOST_NUDGED` members of each are
    looked at: a larger group is left to the trainer's next look.
    """
    return _MAY_BE_COMPLETE, {"ids": list(group_ids)}


def complete_groups(connection: Connection, may_be: Sequence[UUID]) -> set[UUID]:
    """Those of them whose members that are there are all scored: worth a nudge. The grace period is the trainer's."""
    return set(connection.scalars(_COMPLETE, {"ids": list(may_be)})) if may_be else set()
