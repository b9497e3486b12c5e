"""A dry run as a row: whoever wants one asks, a worker answers, and the row goes (docs/decisions/0019).

Invariant: a row is answered once. Whoever answers has it for a while, and holds no lock while it computes: a question can
be taken back at any time, and who dies meanwhile leaves it to the next.
"""

import json
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.errors import LedgerError
from ledger.identifiers import new_id

TAKEN_SECONDS = 60.0  # then another may answer: whoever took it may be dead
_ASK = text(
    "INSERT INTO plans (id, project_id) SELECT :id, id FROM projects WHERE name = :project RETURNING id"
)
_TAKE = text("DELETE FROM plans WHERE id = :id AND answered_at IS NOT NULL RETURNING plan")
_WITHDRAW = text("DELETE FROM plans WHERE id = :id")
_WAITING = text("""
    UPDATE plans SET taken_at = clock_timestamp() WHERE id = (
        SELECT id FROM plans
        WHERE answered_at IS NULL
            AND (taken_at IS NULL OR taken_at < clock_timestamp() - make_interval(secs => :taken_seconds))
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING id, project_id
""")
_ANSWER = text("""
    UPDATE plans SET answered_at = clock_timestamp(), plan = CAST(:plan AS jsonb)
    WHERE id = :id AND answered_at IS NULL
""")
_FORGET = text("""
    DELETE FROM plans WHERE id = ANY (ARRAY(
        SELECT id FROM plans WHERE created_at < now() - interval '1 hour' FOR UPDATE SKIP LOCKED
    ))
""")


def ask_plan(connection: Connection, project: str) -> UUID:
    """A question for whichever worker looks next. Raises LedgerError for an unknown project."""
    asked: UUID | None = connection.scalar(_ASK, {"id": new_id(), "project": project})
    if asked is None:
        raise LedgerError(f"there is no project {project!r}: `slipstream keys` lists them")
    return asked


def take_answer(connection: Connection, plan_id: UUID) -> dict[str, Any] | None:
    """The answer, once, and the row is gone; None while there is none."""
    answer: dict[str, Any] | None = connection.scalar(_TAKE, {"id": plan_id})
    return answer


def withdraw_plan(connection: Connection, plan_id: UUID) -> None:
    """Nobody waits for it any more."""
    connection.execute(_WITHDRAW, {"id": plan_id})


def waiting_plan(connection: Connection) -> tuple[UUID, UUID] | None:
    """The oldest question that nobody else answers now, and its project. It is the caller's once this is committed."""
    row = connection.execute(_WAITING, {"taken_seconds": TAKEN_SECONDS}).one_or_none()
    return None if row is None else (row.id, row.project_id)


def answer_plan(connection: Connection, plan_id: UUID, plan: dict[str, Any]) -> None:
    """Nothing happens where it was taken back, or answered by another."""
    connection.execute(_ANSWER, {"id": plan_id, "plan": json.dumps(plan)})


def forget_old_plans(connection: Connection) -> None:
    """What somebody asked for and did not fetch, answered or not."""
    connection.execute(_FORGET)
