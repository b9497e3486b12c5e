"""What an export was asked for: which exchanges. Kept with the export, so that an erasure can tell what is in it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.errors import LedgerError
from ledger.identifiers import first_id_at, parse_id

_GROUPS = text("""
    SELECT g.id FROM groups AS g JOIN projects AS p ON p.id = g.project_id
    WHERE (g.key = :key OR CAST(g.id AS text) = :key) AND (CAST(:project AS text) IS NULL OR p.name = :project)
""")


_NAMED = {
    "project": text("SELECT name FROM projects ORDER BY name"),
    "policy": text("""
        SELECT DISTINCT policy.name FROM policies AS policy JOIN projects AS p ON p.id = policy.project_id
        WHERE CAST(:project AS text) IS NULL OR p.name = :project ORDER BY policy.name
    """),
    "version": text("""
        SELECT DISTINCT v.version FROM policy_versions AS v
        JOIN policies AS policy ON policy.id = v.policy_id JOIN projects AS p ON p.id = policy.project_id
        WHERE (CAST(:project AS text) IS NULL OR p.name = :project)
            AND (CAST(:policy AS text) IS NULL OR policy.name = :policy)
        ORDER BY v.version DESC
    """),
}
_RECORDED = text("SELECT EXISTS (SELECT FROM exchanges WHERE version = :version)")  # of imported rows
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Filters:
    """None = any. Example: Filters(policy="default", version=3, is_trainable=True)."""

    project: str | None = None
    policy: str | None = None
    version: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    is_trainable: bool | None = None
    group_ids: tuple[UUID, ...] | None = None

    @property
    def condition(self) -> str:
        """SQL over `exchanges AS e` and `trajectories AS t`; times are ids, so that whole partitions are left out."""
        given = {
            "project": "e.project_id = (SELECT id FROM projects WHERE name = :project)",
            "policy": "e.policy_id IN (SELECT id FROM policies WHERE name = :policy)",
            "version": "e.version = :version",
            "since": "e.id >= :since",
            "until": "e.id < :until",
            "is_trainable": "e.is_trainable = :is_trainable",
            "group_ids": "t.group_id = ANY (:group_ids)",
        }
        return " AND ".join(["e.erased_at IS NULL", *(given[name] for name in self.values)])

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of the condition."""
        given = {
            "project": self.project,
            "policy": self.policy,
            "version": self.version,
            "since": self.since and first_id_at(self.since),
            "until": self.until and first_id_at(self.until),
            "is_trainable": self.is_trainable,
            "group_ids": None if self.group_ids is None else list(self.group_ids),
        }
        return {name: value for name, value in given.items() if value is not None}

    def as_json(self) -> dict[str, Any]:
        given = {
            "project": self.project,
            "policy": self.policy,
            "version": self.version,
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "is_trainable": self.is_trainable,
            "group_ids": None if self.group_ids is None else [str(id_) for id_ in self.group_ids],
        }
        return {name: value for name, value in given.items() if value is not None}


def groups_named(connection: Connection, key: str, project: str | None) -> tuple[UUID, ...]:
    """By the caller's own id, or ours. Raises LedgerError."""
    wanted = str(parse_id(key) or key)
    found = tuple(connection.scalars(_GROUPS, {"key": wanted, "project": project}))
    if not found:
        raise LedgerError(f"there is no group {key!r}: v1.groups lists ids and keys")
    return found


def check_filters(connection: Connection, filters: Filters) -> None:
    """A misspelt name is an error, and no file without rows. Raises LedgerError."""
    if filters.since and filters.until and filters.since >= filters.until:
        raise LedgerError(
            f"--since {filters.since.isoformat()} is not before --until {filters.until.isoformat()}"
        )
    given = {"project": filters.project, "policy": filters.policy, "version": filters.version}
    for name, value in given.items():
        known = list(connection.scalars(_NAMED[name], given)) if value is not None else [None]
        if value not in known and not (name == "version" and connection.scalar(_RECORDED, given)):
            there = ", ".join(str(one) for one in known[:_MOST_NAMED]) or "none"
            more = ", …" if len(known) > _MOST_NAMED else ""
            raise LedgerError(f"there is no {name} {value!r}: there is {there}{more}")
