"""Policies that begin no step for now, and why (docs/decisions/0024). A running step goes on; so do serving and recording.

Invariant: whoever pauses waits for a claim that is just beginning a step; once the pause is committed, none begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.errors import LedgerError

MAX_REASON = 500
_PAUSE = text("""
    UPDATE policies SET paused_at = coalesce(paused_at, clock_timestamp()), paused_reason = :reason
    WHERE id = ANY (CAST(:policy_ids AS uuid[]))
""")
_RESUME = text("""
    UPDATE policies SET paused_at = NULL, paused_reason = NULL
    WHERE id = ANY (CAST(:policy_ids AS uuid[])) AND paused_at IS NOT NULL
""")
_NAMED = text("""
    SELECT p.id, project.name AS project, p.name AS policy, p.paused_at, p.paused_reason
    FROM policies AS p JOIN projects AS project ON project.id = p.project_id
    WHERE (CAST(:project AS text) IS NULL OR project.name = :project)
        AND (CAST(:policy AS text) IS NULL OR p.name = :policy)
    ORDER BY project.name, p.name
""")


@dataclass(frozen=True, slots=True)
class Learner:
    """A policy by its names; `paused_at` None: it learns."""

    id: UUID
    project: str
    policy: str
    paused_at: datetime | None
    paused_reason: str | None


def find_learners(
    connection: Connection, project: str | None = None, policy: str | None = None
) -> list[Learner]:
    """All of this name, or of this project, or all. Raises LedgerError where there is none."""
    rows = connection.execute(_NAMED, {"project": project, "policy": policy})
    found = [Learner(**row._mapping) for row in rows]  # noqa: SLF001 - public, despite its underscore
    if not found:
        name = f"policy {policy!r}" if policy else "policy"
        of = f" in project {project!r}" if project else ""
        raise LedgerError(f"there is no {name}{of}: `slipstream versions` lists them")
    return found


def pause(connection: Connection, policy_ids: Sequence[UUID], reason: str | None) -> None:
    """What is paused already keeps its moment, and gets this reason. Raises LedgerError for one that is no sentence."""
    if reason is not None and (len(reason) > MAX_REASON or not reason.isprintable() or not reason.strip()):
        raise LedgerError(f"a reason is one line of at most {MAX_REASON} printable characters")
    connection.execute(_PAUSE, {"policy_ids": sorted(policy_ids), "reason": reason})


def resume(connection: Connection, policy_ids: Sequence[UUID]) -> int:
    """How many of them were paused."""
    return connection.execute(_RESUME, {"policy_ids": sorted(policy_ids)}).rowcount


def paused_learners(connection: Connection, project: str | None = None) -> list[Learner]:
    rows = connection.execute(_NAMED, {"project": project, "policy": None})
    return [Learner(**row._mapping) for row in rows if row.paused_at is not None]  # noqa: SLF001 - as above
