"""Steps that somebody asked for (docs/decisions/0024): by hand, or to imitate, or to learn from comparisons.

Invariant: each is taken by one step at most, in the order of asking, and ends in the transaction that ends its step.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.identifiers import new_id
from ledger.reading import plain
from ledger.vocabulary import RequestState, StepKind

ASK = text(
    "INSERT INTO step_requests (id, policy_id, kind, arguments)"
    " VALUES (:id, :policy_id, :kind, CAST(:arguments AS jsonb))"
)
NEXT = text(
    "SELECT id, policy_id, kind, arguments FROM step_requests WHERE policy_id = :policy_id AND state = 'waiting'"
    " AND (NOT :is_paused OR arguments -> 'even_if_paused' = 'true') ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
)
TAKE = text(
    "UPDATE step_requests SET state = 'taken', step_id = :step_id WHERE id = :id AND state = 'waiting'"
)
REFUSE = text(
    "UPDATE step_requests SET state = 'refused', reason = :reason, finished_at = clock_timestamp()"
    " WHERE id = :id AND state IN ('waiting', 'taken')"
)
END = text(
    "UPDATE step_requests SET state = 'done', reason = :reason, finished_at = clock_timestamp()"
    " WHERE step_id = :step_id AND state = 'taken'"
)
WITHDRAW = text(
    "UPDATE step_requests AS r SET state = 'refused', reason = :reason, finished_at = clock_timestamp()"
    " FROM policies AS p JOIN projects AS project ON project.id = p.project_id"
    " WHERE r.id = :id AND r.state = 'waiting' AND p.id = r.policy_id AND project.name = :project"
)
OF_PROJECT = text("SELECT * FROM v1.step_requests WHERE id = :id AND project = :project")
WITHDRAWN = "It was withdrawn before a step took it."
STATE = text("SELECT state, reason, step_id FROM step_requests WHERE id = :id")


@dataclass(frozen=True, slots=True)
class StepRequest:
    """Example: kind sft, arguments {"from": "demonstrations", "epochs": 1}."""

    id: UUID
    policy_id: UUID
    kind: StepKind
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a request: `step_id` once a step took it, `reason` where there is one."""

    state: RequestState
    reason: str | None
    step_id: UUID | None


def ask_step(connection: Connection, policy_id: UUID, kind: StepKind, arguments: dict[str, Any]) -> UUID:
    """The id of the new request. It waits until a worker begins the step."""
    request_id = new_id()
    values = {"id": request_id, "policy_id": policy_id, "kind": kind, "arguments": json.dumps(arguments)}
    connection.execute(ASK, values)
    return request_id


def next_request(connection: Connection, policy_id: UUID, *, is_paused: bool = False) -> StepRequest | None:
    """The oldest that waits, locked until the transaction ends; None too where another worker has it locked. Of a
    paused policy: that waits for no resumption.
    """
    row = connection.execute(NEXT, {"policy_id": policy_id, "is_paused": is_paused}).one_or_none()
    if row is None:
        return None
    return StepRequest(row.id, row.policy_id, StepKind(row.kind), row.arguments)


def take_request(connection: Connection, request_id: UUID, step_id: UUID) -> None:
    connection.execute(TAKE, {"id": request_id, "step_id": step_id})


def refuse_request(connection: Connection, request_id: UUID, reason: str) -> None:
    """It cannot be done: `reason` is one sentence that says what would help."""
    connection.execute(REFUSE, {"id": request_id, "reason": reason})


def end_request_of(connection: Connection, step_id: UUID, reason: str | None) -> None:
    """Its step was published, skipped or failed. Without effect for a step that nobody asked for."""
    connection.execute(END, {"step_id": step_id, "reason": reason})


def read_request(connection: Connection, request_id: UUID) -> Answered | None:
    row = connection.execute(STATE, {"id": request_id}).one_or_none()
    return None if row is None else Answered(RequestState(row.state), row.reason, row.step_id)


def find_request(connection: Connection, project: str, request_id: UUID) -> dict[str, Any] | None:
    """As `v1.step_requests` tells it; None where the project has none with this id."""
    row = connection.execute(OF_PROJECT, {"id": request_id, "project": project}).mappings().one_or_none()
    return None if row is None else plain(dict(row))


def withdraw_request(connection: Connection, project: str, request_id: UUID) -> bool:
    """False where it does not wait any more, or is not there."""
    values = {"id": request_id, "project": project, "reason": WITHDRAWN}
    return connection.execute(WITHDRAW, values).rowcount == 1
