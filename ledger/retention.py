"""Retention: how long a policy's rows are kept, and which months are over.

The unit is the month: it is over for a policy `days` after its last moment, so a row is kept for at least so many days
and at most a month longer. Deltas never cross a month, so one that goes takes nothing from those that stay.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, Table, func, select, text, update

from ledger.errors import LedgerError
from ledger.partitions import PARTITIONED_TABLES, month_start
from ledger.tables import policies, projects

_PARTITIONS = text("""
    SELECT c.relname FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
    WHERE inhparent = ANY (SELECT to_regclass(name) FROM unnest(CAST(:tables AS text[])) AS name)
""")
_MONTH = re.compile(r"_(\d{4})_(\d{2})$")


@dataclass(frozen=True, slots=True)
class Retention:
    """What one policy asks for; days None = for ever.

    Example: 30 days. November 2026 ends with December 1st, 0:00; it is over from December 31st, 0:00 on.
    """

    project_id: UUID
    project: str
    policy_id: UUID
    policy: str
    days: int | None

    def is_over(self, month: datetime, now: datetime) -> bool:
        try:
            return self.days is not None and month_start(month, 1) + timedelta(days=self.days) <= now
        except OverflowError:  # SQL may say any number; no date lies so far
            return False


def read_retentions(connection: Connection) -> list[Retention]:
    """Of every policy: its own days, else its project's."""
    days = func.coalesce(policies.c.retention_days, projects.c.retention_days)
    rows = connection.execute(
        select(projects.c.id, projects.c.name, policies.c.id, policies.c.name, days)
        .join_from(policies, projects)
        .order_by(projects.c.name, policies.c.name)
    )
    return [Retention(*row) for row in rows]


def set_retention(connection: Connection, project: str, policy: str | None, days: int | None) -> None:
    """Of a project, or of one of its policies; None = for ever, or for a policy: as its project says.

    Raises LedgerError where there is none of that name.
    """
    if days is not None and days < 1:
        raise LedgerError("keep rows for at least 1 day")
    of_project = select(projects.c.id).where(projects.c.name == project).scalar_subquery()
    table: Table = projects if policy is None else policies
    where = (
        projects.c.name == project
        if policy is None
        else (policies.c.project_id == of_project) & (policies.c.name == policy)
    )
    if connection.execute(update(table).where(where).values(retention_days=days)).rowcount != 1:
        name = project if policy is None else f"{policy} of project {project}"
        raise LedgerError(f"there is no {'project' if policy is None else 'policy'} {name}")


def months(connection: Connection) -> list[datetime]:
    """The months that have partitions, oldest first."""
    names = connection.scalars(_PARTITIONS, {"tables": list(PARTITIONED_TABLES)})
    found = {match.groups() for name in names if (match := _MONTH.search(name))}
    return [datetime(int(year), int(month), 1, tzinfo=UTC) for year, month in sorted(found)]


def months_over(
    connection: Connection, retentions: Sequence[Retention], now: datetime
) -> Iterator[tuple[datetime, list[Retention]]]:
    """The months that are over for somebody, with those for whom they are."""
    for month in months(connection):
        over = [retention for retention in retentions if retention.is_over(month, now)]
        if over:
            yield month, over
