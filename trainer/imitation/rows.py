"""What is frozen of a step without groups: a row of `step_samples` for each exchange that it looked at."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from sqlalchemy import Connection, insert, text

from ledger.answers import Answer
from ledger.tables import step_samples
from ledger.vocabulary import Reason

USED = text(
    "SELECT exchange_id, trajectory_id, reward_event_ids, num_completion_tokens FROM step_samples"
    " WHERE step_id = :step_id AND is_used ORDER BY exchange_id"
)
LEAVE_OUT = text(
    "UPDATE step_samples SET is_used = false, reason = 'erased'"
    " WHERE step_id = :step_id AND is_used AND exchange_id = ANY (CAST(:ids AS uuid[]))"
)


@dataclass(frozen=True, slots=True)
class LearnedRow:
    """A row of step_samples without its step: compared with nothing, so there is no baseline."""

    exchange_id: UUID
    trajectory_id: UUID
    group_id: UUID | None
    reward: float | None
    trajectory_reward: float | None
    reward_event_ids: list[UUID]
    advantage: float | None
    staleness: int | None
    num_completion_tokens: int
    is_used: bool
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Frozen:
    """A used row as a resumed step finds it."""

    exchange_id: UUID
    trajectory_id: UUID
    event_ids: tuple[UUID, ...]
    num_tokens: int


def reason_of(word: str) -> Reason:
    """The column's word for it: `left_out` in the step's metrics says it exactly."""
    return Reason(word) if word in list(Reason) else Reason.MISSING_TOKEN_IDS


def staleness_of(answer: Answer, parent_version: int) -> int | None:
    return None if answer.version is None else parent_version - answer.version


def freeze(connection: Connection, step_id: UUID, rows: Sequence[LearnedRow]) -> None:
    if rows:
        connection.execute(insert(step_samples), [{"step_id": step_id, **asdict(row)} for row in rows])


def read_frozen(connection: Connection, step_id: UUID) -> list[Frozen]:
    return [
        Frozen(
            row.exchange_id, row.trajectory_id, tuple(row.reward_event_ids or ()), row.num_completion_tokens
        )
        for row in connection.execute(USED, {"step_id": step_id})
    ]


def leave_out_erased(connection: Connection, step_id: UUID, exchange_ids: Sequence[UUID]) -> None:
    """What was erased since the step was built is learned from no more, and its row says so (I10)."""
    if exchange_ids:
        connection.execute(LEAVE_OUT, {"step_id": step_id, "ids": list(exchange_ids)})
