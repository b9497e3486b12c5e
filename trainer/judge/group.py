"""What there is to judge: open groups with members that nobody scored. Reads only."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.rewards.metrics import reward_scale
from ledger.rewards.ranges import Scale
from ledger.rewards.reading import trajectory_rewards
from ledger.text import from_storable
from ledger.vocabulary import JUDGE_SOURCE
from trainer.judge.prompt import Attempt
from trainer.judge.transcript import IS_LEFT_OUT, read_transcripts

MIN_MEMBERS = 2
_NUM_FINISHED = "(SELECT count(*) FROM judge_runs AS r WHERE r.group_id = g.id AND r.state = 'finished')"
# Most open groups have one member: what has more is found in one pass, and only of that more is asked, what is cheap first.
# Whom a judge scored is not asked about again, though its score may not count: it was taken back, or the range was changed.
_CANDIDATES = text(f"""
    SELECT g.id, {_NUM_FINISHED} AS num_finished FROM (
        SELECT t.group_id AS id, count(*) AS num FROM trajectories AS t
        WHERE t.group_id IS NOT NULL
            AND (CAST(:days AS integer) IS NULL OR t.id >= v1.first_id_at(now() - make_interval(days => :days)))
        GROUP BY t.group_id HAVING count(*) FILTER (WHERE t.erased_at IS NULL) >= :min_members
    ) AS members
    JOIN groups AS g USING (id)
    JOIN policies AS p ON p.id = g.policy_id
    JOIN projects AS owner ON owner.id = g.project_id
    CROSS JOIN LATERAL (
        SELECT bool_or(CASE
                WHEN EXISTS (SELECT FROM reward_events AS r WHERE r.trajectory_id = t.id AND r.source = '{JUDGE_SOURCE}')
                    THEN false
                ELSE NOT EXISTS (SELECT FROM v1.rewards AS r WHERE r.trajectory_id = t.id AND r.is_counted)
            END) AS has_unscored,
            count(*) AS num_readable
        FROM trajectories AS t
        WHERE t.group_id = g.id AND g.state = 'open' AND t.erased_at IS NULL
            AND EXISTS (SELECT FROM exchanges AS e WHERE e.trajectory_id = t.id AND NOT ({IS_LEFT_OUT}))
    ) AS m
    WHERE g.state = 'open' AND m.has_unscored AND m.num_readable >= :min_members
        AND NOT EXISTS (SELECT FROM metrics WHERE policy_id = p.id AND name = 'reward' AND weight = 0)
        AND (CAST(:policy AS text) IS NULL OR :policy IN (p.name, owner.name || '@' || p.name))
        AND (:wait = 0 OR (
            g.last_member_at <= clock_timestamp() - make_interval(secs => :wait)
            AND (members.num >= coalesce(g.size, 0) OR g.last_member_at <= clock_timestamp() - INTERVAL '1 hour')
            AND (
                SELECT count(*) FROM trajectories AS t JOIN exchanges AS e ON e.trajectory_id = t.id
                WHERE t.group_id = g.id AND m.has_unscored
                    AND e.created_at > clock_timestamp() - make_interval(secs => :wait)
            ) = 0
        ))
        AND NOT EXISTS (
            SELECT FROM judge_runs AS r
            WHERE r.group_id = g.id AND r.state = 'running' AND r.expires_at >= clock_timestamp()
        )
        AND (SELECT count(*) FROM judge_runs AS r WHERE r.group_id = g.id AND r.state = 'failed' AND NOT r.is_outage
            AND r.created_at > clock_timestamp() - INTERVAL '24 hours') < :max_failures
    ORDER BY EXISTS (
            SELECT FROM judge_runs AS r WHERE r.group_id = g.id AND (r.state = 'refused' OR r.is_outage)
                AND r.created_at > clock_timestamp() - INTERVAL '24 hours'
        ), g.created_at, g.id
    LIMIT :limit
""")
_NAMED = text(
    "SELECT id FROM groups WHERE CAST(id AS text) = :name OR key = :name ORDER BY sequence DESC, id DESC"
)
_GROUP = text(f"""
    SELECT g.id, g.state, g.project_id, owner.name AS project, g.policy_id, p.name AS policy, p.reward_min,
        p.reward_max,
        {_NUM_FINISHED} AS num_finished
    FROM groups AS g JOIN policies AS p ON p.id = g.policy_id JOIN projects AS owner ON owner.id = g.project_id
    WHERE g.id = :group_id
""")
_MEMBERS = text("""
    SELECT t.id, t.metadata,
        EXISTS (SELECT FROM v1.rewards AS r WHERE r.trajectory_id = t.id AND r.is_counted) AS has_reward,
        EXISTS (
            SELECT FROM v1.rewards AS r WHERE r.trajectory_id = t.id AND r.is_counted AND r.source <> 'judge'
        ) AS is_settled
    FROM trajectories AS t WHERE t.group_id = :group_id AND t.erased_at IS NULL ORDER BY t.id
""")


@dataclass(frozen=True, slots=True)
class Member:
    """`has_reward`: somebody scored it. `is_settled`: somebody other than a judge did."""

    trajectory_id: UUID
    metadata: dict[str, Any]
    has_reward: bool
    is_settled: bool
    reward: float | None
    messages: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """A group with what its members said, as it was when `num_finished` runs had judged it; counted before they are read.

    A reward that somebody gave lies between reward_min and reward_max; what is posted, on `scale`.
    """

    id: UUID
    state: str
    project_id: UUID
    project: str
    policy_id: UUID
    policy: str
    reward_min: float
    reward_max: float
    scale: Scale
    num_finished: int
    members: list[Member]

    @property
    def unscored(self) -> list[Member]:
        return [member for member in self.members if not member.has_reward]

    def attempts(self, *, rescores: bool) -> list[Attempt]:
        """What a judge sees: who is settled is shown with its score, unless `rescores`."""
        return [
            Attempt(
                member.trajectory_id,
                member.messages,
                None if rescores or not member.is_settled else self._known(member.reward),
            )
            for member in self.members
        ]

    def reward_of(self, score: float) -> float:
        """What is posted. Example: score 0.75 in the range -1 to 1 -> 0.5; in 0 to 10, lower is better -> 2.5."""
        return self.scale.value_of(score)

    def _known(self, reward: float | None) -> float | None:
        if reward is None:
            return None
        return min(max((reward - self.reward_min) / (self.reward_max - self.reward_min), 0.0), 1.0)


def find_candidates(
    connection: Connection,
    *,
    limit: int,
    policy: str | None = None,
    wait_seconds: float = 0.0,
    max_failures: int = 1 << 30,
    min_members: int = MIN_MEMBERS,
    days: int | None = None,
) -> dict[UUID, int]:
    """Open groups that can be judged, with a member that nobody scored, not even a judge whose score does not count; each
    with how many runs of it had finished.

    The oldest first; those that the budget or an outage kept out last.
    `wait_seconds` above 0: only groups that seem to be complete, and that nobody spoke in for so long. `days`: only
    groups of which so many members began since.
    """
    wanted = {
        "limit": limit,
        "policy": policy,
        "wait": wait_seconds,
        "max_failures": max_failures,
        "min_members": min_members,
        "days": days,
    }
    return {row.id: row.num_finished for row in connection.execute(_CANDIDATES, wanted)}


def find_named(connection: Connection, name: str) -> UUID | None:
    """By its id, or by the key that the caller gave it (the newest of that name)."""
    found: UUID | None = connection.execute(_NAMED, {"name": name}).scalars().first()
    return found


def read_group(connection: Connection, group_id: UUID) -> JudgedGroup | None:
    """None if it is gone. Members of which nothing can be read are left out."""
    row = connection.execute(_GROUP, {"group_id": group_id}).first()
    if row is None:
        return None
    members = connection.execute(_MEMBERS, {"group_id": group_id}).all()
    ids = [member.id for member in members]
    rewards, said = trajectory_rewards(connection, ids), read_transcripts(connection, ids)
    found = [
        Member(
            member.id,
            from_storable(member.metadata or {}),
            member.has_reward,
            member.is_settled,
            rewards.get(member.id),
            said[member.id],
        )
        for member in members
        if said.get(member.id)
    ]
    scale = reward_scale(connection, row.project, row.policy)
    return JudgedGroup(**row._mapping, scale=scale, members=found)  # noqa: SLF001 - public, despite its underscore
