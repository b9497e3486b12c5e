"""Comparisons as a step of dpo finds them: those in force, each with what its two sides answered.

A side is the exchange that was judged; where a whole trajectory was, all its answers together. Invariant: a comparison is a
pair only if both sides are whole, of this policy, and answer the same prompt ids.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.answers import Answer, read_answers
from ledger.vocabulary import LeftOut, Reason

_IN_FORCE = text("""
    SELECT c.id, p.id AS preferred_event_id, p.trajectory_id AS one_id, p.exchange_id AS one_exchange,
        o.id AS other_event_id, o.trajectory_id AS two_id, o.exchange_id AS two_exchange,
        p.is_retraction OR o.is_retraction AS is_retracted
    FROM comparisons AS c
    JOIN policies AS policy ON policy.id = CAST(:policy_id AS uuid) AND policy.project_id = c.project_id
    JOIN reward_events AS p ON p.id = c.preferred_event_id
    JOIN reward_events AS o ON o.id = c.other_event_id
    LEFT JOIN trajectories AS t ON t.id = p.trajectory_id
    LEFT JOIN trajectories AS u ON u.id = o.trajectory_id
    WHERE c.created_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
        AND policy.id IN (t.policy_id, u.policy_id)
    ORDER BY c.id DESC
""")
# What a frozen event says: its comparison, and which side of it.
_FROZEN = text("""
    SELECT id, comparison_id, trajectory_id, exchange_id, value FROM reward_events
    WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY comparison_id, value DESC
""")


@dataclass(frozen=True, slots=True)
class Side:
    """What one side answered: an exchange, or all exchanges of a trajectory, in turn order."""

    event_id: UUID
    answers: tuple[Answer, ...]

    @property
    def prompt_ids(self) -> list[int] | None:
        return self.answers[0].prompt_ids


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison: its two sides, or why it is no pair."""

    comparison_id: UUID
    preferred: Side | None = None
    other: Side | None = None
    reason: str | None = None

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.preferred, self.other) if self.preferred and self.other else ()


def find_compared(
    connection: Connection, policy_id: UUID, since: datetime | None, max_tokens: int
) -> list[Compared]:
    """Those in force now, the newest first."""
    rows = connection.execute(_IN_FORCE, {"policy_id": policy_id, "since": since}).all()
    answers = _answers(connection, policy_id, (id_ for row in rows for id_ in (row.one_id, row.two_id)))
    return [_compared(row, answers, max_tokens) for row in rows]


def read_compared(
    connection: Connection, policy_id: UUID, event_ids: Sequence[UUID], max_tokens: int
) -> list[Compared]:
    """The same of frozen events, by comparison, whatever was said since."""
    rows = connection.execute(_FROZEN, {"ids": list(event_ids)}).all()
    answers = _answers(connection, policy_id, (row.trajectory_id for row in rows))
    found = []
    for comparison_id, halves in groupby(rows, key=lambda row: row.comparison_id):
        of = list(halves)
        if len(of) != 2:  # noqa: PLR2004 - the other half is gone
            found.append(Compared(comparison_id, reason=Reason.ERASED))
            continue
        sides = [_side(half.id, half.trajectory_id, half.exchange_id, answers) for half in of]
        found.append(_pair(comparison_id, sides[0], sides[1], max_tokens))
    return found


def _compared(row: Any, answers: dict[UUID, list[Answer]], max_tokens: int) -> Compared:
    if row.is_retracted:
        return Compared(row.id, reason=LeftOut.RETRACTED)
    if row.one_id is None or row.two_id is None:
        return Compared(row.id, reason=LeftOut.EARLY)
    preferred = _side(row.preferred_event_id, row.one_id, row.one_exchange, answers)
    other = _side(row.other_event_id, row.two_id, row.two_exchange, answers)
    return _pair(row.id, preferred, other, max_tokens)


def _side(
    event_id: UUID, trajectory_id: UUID, exchange_id: UUID | None, answers: dict[UUID, list[Answer]]
) -> Side:
    of = answers.get(trajectory_id, [])
    return Side(event_id, tuple(a for a in of if exchange_id in (None, a.exchange_id)))


def _pair(comparison_id: UUID, preferred: Side, other: Side, max_tokens: int) -> Compared:
    if reason := _defect(preferred, max_tokens) or _defect(other, max_tokens):
        return Compared(comparison_id, reason=reason)
    if preferred.prompt_ids != other.prompt_ids:
        return Compared(comparison_id, reason=LeftOut.PROMPTS_DIFFER)
    if _said(preferred) == _said(other):
        return Compared(comparison_id, reason=LeftOut.SAME_ANSWER)
    return Compared(comparison_id, preferred, other)


def _said(side: Side) -> list[list[int] | None]:
    return [answer.completion_ids for answer in side.answers]


def _defect(side: Side, max_tokens: int) -> str | None:
    """Of a side whose every answer must be there: a likelihood with a turn missing is not the trajectory's."""
    if not side.answers:
        return Reason.MISSING_TOKEN_IDS  # another policy's, another provider's, or gone
    for answer in side.answers:
        if reason := answer.token_defect:
            return reason
        if len(answer.prompt_ids or ()) + len(answer.completion_ids or ()) > max_tokens:
            return Reason.TOO_LONG
    return None


def _answers(
    connection: Connection, policy_id: UUID, trajectory_ids: Iterable[UUID | None]
) -> dict[UUID, list[Answer]]:
    return read_answers(connection, policy_id, [id_ for id_ in trajectory_ids if id_ is not None])
