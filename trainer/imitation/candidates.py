"""What a step of sft could imitate, by source: found in the ledger by the policy's own id, the newest or best first."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.answers import Answer, read_answers
from ledger.rewards.reading import exchange_rewards
from ledger.text import from_storable
from ledger.vocabulary import LeftOut, Reason, SftSource
from ledger.wishes import SftWish

# The newest of each source's, unless taken back; of several sources the newest.
_DEMONSTRATIONS = text("""
    SELECT DISTINCT ON (d.trajectory_id, d.exchange_id) d.id, d.trajectory_id, d.exchange_id, d.content
    FROM (
        SELECT DISTINCT ON (r.trajectory_id, r.exchange_id, r.source)
            r.id, r.trajectory_id, r.exchange_id, r.content, r.is_retraction, r.created_at
        FROM reward_events AS r
        JOIN policies AS p ON p.id = CAST(:policy_id AS uuid) AND p.project_id = r.project_id
        JOIN trajectories AS t ON t.id = r.trajectory_id AND t.policy_id = p.id
        WHERE r.metric = 'demonstration'
        ORDER BY r.trajectory_id, r.exchange_id, r.source, r.id DESC
    ) AS d
    WHERE NOT d.is_retraction AND d.created_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
    ORDER BY d.trajectory_id, d.exchange_id, d.id DESC
""")
_TEACHER = text("""
    SELECT e.id AS exchange_id, e.trajectory_id FROM exchanges AS e
    WHERE e.policy_id = CAST(:policy_id AS uuid) AND e.version IS NULL
        AND e.started_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
    ORDER BY e.id DESC
""")
_BEST = text("""
    SELECT r.trajectory_id, r.reward FROM v1.trajectory_rewards AS r
    JOIN trajectories AS t ON t.id = r.trajectory_id
    WHERE t.policy_id = CAST(:policy_id AS uuid) AND r.reward IS NOT NULL
        AND t.created_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
    ORDER BY r.reward DESC, r.trajectory_id DESC
""")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer to imitate: its own, or the demonstration `content` in its place. `reason`: why it cannot be."""

    answer: Answer
    event_ids: tuple[UUID, ...] = ()
    content: Any = None
    is_demonstration: bool = False
    reward: float | None = None
    reason: str | None = None


def find_candidates(connection: Connection, policy_id: UUID, wish: SftWish) -> list[Candidate]:
    """Each exchange once. Those that cannot be imitated have their reason."""
    return _FINDERS[wish.source](connection, policy_id, wish)


def _demonstrations(connection: Connection, policy_id: UUID, wish: SftWish) -> list[Candidate]:
    rows = connection.execute(_DEMONSTRATIONS, {"policy_id": policy_id, "since": wish.since}).all()
    answers = read_answers(connection, policy_id, (row.trajectory_id for row in rows))
    found: dict[UUID, Candidate] = {}
    for row in sorted(rows, key=lambda row: row.id, reverse=True):  # of one reply the newest counts
        of = answers.get(row.trajectory_id, [])
        meant = [a for a in of if row.exchange_id in (None, a.exchange_id)]
        if not meant:
            continue  # its exchange is another policy's, or gone
        reason = meant[-1].defect or (LeftOut.SEVERAL_REPLIES if len(meant) > 1 else None)
        if reason is None and row.content is None:
            reason = Reason.ERASED
        candidate = Candidate(
            meant[-1], (row.id,), from_storable(row.content), is_demonstration=True, reason=reason
        )
        found.setdefault(meant[-1].exchange_id, candidate)
    return list(found.values())


def _teachers(connection: Connection, policy_id: UUID, wish: SftWish) -> list[Candidate]:
    rows = connection.execute(_TEACHER, {"policy_id": policy_id, "since": wish.since}).all()
    answers = read_answers(connection, policy_id, (row.trajectory_id for row in rows))
    by_id = {a.exchange_id: a for of in answers.values() for a in of}
    known = [by_id[row.exchange_id] for row in rows if row.exchange_id in by_id]
    return [Candidate(answer, reason=answer.own_defect or _truncated(answer)) for answer in known]


def _best(connection: Connection, policy_id: UUID, wish: SftWish) -> list[Candidate]:
    rows = connection.execute(_BEST, {"policy_id": policy_id, "since": wish.since}).all()
    if wish.min_reward is not None:
        rows = [row for row in rows if row.reward >= wish.min_reward]
    if wish.top is not None:
        rows = rows[: ceil(len(rows) * wish.top)]
    if not rows:
        return []
    ids = [row.trajectory_id for row in rows]
    lowest = rows[-1].reward
    answers, judged = read_answers(connection, policy_id, ids), exchange_rewards(connection, ids)
    found = []
    for row in rows:
        for answer in answers.get(row.trajectory_id, []):
            own = judged.get(answer.exchange_id)
            if own is not None and own.is_own and own.reward < lowest:
                continue  # a bad turn of a good talk is not among the best
            reason = answer.token_defect or _truncated(answer)
            reward, event_ids = (own.reward, own.event_ids) if own else (row.reward, ())
            found.append(Candidate(answer, event_ids, reward=reward, reason=reason))
    return found


def _truncated(answer: Answer) -> Reason | None:
    """Whoever imitates an answer that was cut off learns to stop nowhere."""
    return Reason.TRUNCATED if answer.is_cut_off else None


_FINDERS: dict[SftSource, Callable[[Connection, UUID, SftWish], list[Candidate]]] = {
    SftSource.DEMONSTRATIONS: _demonstrations,
    SftSource.TEACHER: _teachers,
    SftSource.BEST: _best,
}
