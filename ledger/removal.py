"""What retention takes away of one month, table by table, in transactions of a moment each.

Where every row of a partition may go it is dropped; where others keep theirs, rows go in bounded batches, newest first
(a turn before the parent that it is a delta of), a trajectory with its names and judgements. Each transaction holds the policies, so no claim begins meanwhile, and
the recording locks, so nobody writes to a trajectory that goes. step_samples, steps and versions are never touched.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.identifiers import new_id, time_of
from ledger.left_over import LEFT_OVER, MAX_BATCH, REWARD_EVENTS, WITH_TRAJECTORIES
from ledger.partitions import has_partition, month_bounds, month_start, partition_name
from ledger.recording_lock import lock_early
from ledger.retention import Retention
from ledger.vocabulary import ACTIVE_STEP_STATES

LOCK_TIMEOUT = "500ms"  # below deadlock_timeout: of two that wait for each other, retention gives in

# Which rows of {part} may go. Of exchanges: those without a turn beside them, in this month, that somebody keeps.
_EXCHANGES = """
    x.policy_id = ANY (CAST(:over AS uuid[])) AND NOT EXISTS (
        SELECT FROM {part} AS kept
        WHERE kept.trajectory_id = x.trajectory_id AND kept.policy_id <> ALL (CAST(:over AS uuid[]))
    )
"""
# Of trajectories: those without an exchange that stays, in this month or in another one.
_STAYING = "(e.id < :lower OR e.id >= :upper OR e.policy_id <> ALL (CAST(:over AS uuid[])))"
_TRAJECTORIES = f"""
    x.policy_id = ANY (CAST(:over AS uuid[]))
    AND NOT EXISTS (SELECT FROM exchanges AS e WHERE e.trajectory_id = x.id AND {_STAYING})
"""
GOING = {"exchanges": _EXCHANGES, "trajectories": _TRAJECTORIES, "reward_events": REWARD_EVENTS}
# Whether somebody keeps a row of {part}: what a partition has to be asked before it is dropped, by way of its indexes.
_KEPT = "EXISTS (SELECT FROM {part} AS x WHERE x.policy_id = ANY (CAST(:kept AS uuid[])))"
_OF_POLICIES = "policy_id = ANY (CAST(:over AS uuid[]))"
_OF_PROJECTS = "project_id = ANY (CAST(:projects AS uuid[]))"
_OF_WHOLE_PROJECTS = "project_id = ANY (CAST(:whole_projects AS uuid[]))"
_PAGE = "SELECT id FROM {part} WHERE id < :before AND {owned} ORDER BY id DESC LIMIT :limit"
_LATER = f"""
    EXISTS (SELECT FROM exchanges AS e WHERE e.trajectory_id >= :lower AND e.trajectory_id < :upper AND {_STAYING})
"""
_STAYS = {
    "exchanges": _KEPT,
    "trajectories": f"{_KEPT} OR {_LATER}",
    "reward_events": f"EXISTS (SELECT FROM {{part}} AS x WHERE NOT ({REWARD_EVENTS}))",
}
_BY_POLICY = """
    SELECT p.project_id, p.id, x.num_rows FROM (SELECT policy_id, count(*) AS num_rows FROM {part} GROUP BY 1) AS x
    JOIN policies AS p ON p.id = x.policy_id
"""
_BY_PROJECT = "SELECT project_id, CAST(NULL AS uuid), count(*) FROM {part} GROUP BY 1"

_ACTIVE = ", ".join(f"'{state}'" for state in ACTIVE_STEP_STATES)
_HOLD = text("SELECT id FROM policies WHERE id = ANY (CAST(:over AS uuid[])) ORDER BY id FOR NO KEY UPDATE")
_IN_STEP = text(f"""
    SELECT DISTINCT s.policy_id FROM training_steps AS s
    JOIN groups AS g ON g.step_id = s.id
    JOIN trajectories AS t ON t.group_id = g.id
    WHERE s.state IN ({_ACTIVE}) AND s.policy_id = ANY (CAST(:over AS uuid[]))
        AND (
            t.id >= :lower AND t.id < :upper
            OR EXISTS (SELECT FROM exchanges AS e WHERE e.trajectory_id = t.id AND e.id >= :lower AND e.id < :upper)
        )
    UNION SELECT s.policy_id FROM training_steps AS s
    JOIN step_samples AS x ON x.step_id = s.id
    WHERE s.state IN ({_ACTIVE}) AND s.policy_id = ANY (CAST(:over AS uuid[]))
        AND (x.trajectory_id >= :lower AND x.trajectory_id < :upper OR x.exchange_id >= :lower AND x.exchange_id < :upper)
""")  # noqa: S608 - words of ours
_HAS_ACTIVE = text(f"SELECT EXISTS (SELECT FROM training_steps WHERE state IN ({_ACTIVE}))")  # noqa: S608
_COUNT_REMOVED = text("""
    INSERT INTO removals (id, month, table_name, project_id, policy_id, num_rows)
    VALUES (:id, :month, :table_name, :project_id, :policy_id, :num_rows)
    ON CONFLICT (month, table_name, project_id, policy_id)
    DO UPDATE SET num_rows = removals.num_rows + excluded.num_rows, removed_at = now()
""")
# What pointed to trajectories that went one by one.
_WITH_TRAJECTORIES = {
    "trajectory_names": text("""
        DELETE FROM trajectory_names WHERE trajectory_id = ANY (CAST(:ids AS uuid[]))
        RETURNING NULL AS id, project_id, NULL AS policy_id
    """),
    "reward_events": text("""
        DELETE FROM reward_events WHERE trajectory_id = ANY (CAST(:ids AS uuid[]))
        RETURNING id, project_id, NULL AS policy_id
    """),
}

_Owner = tuple[UUID, UUID | None]  # project, policy


@dataclass(frozen=True, slots=True)
class Month:
    """One month, for those policies for which it is over.

    Example: project A keeps both of its policies for 30 days, B one for 30 days and one for ever. Three are over, one
    is kept; A is a whole project.
    """

    start: datetime
    over: list[Retention]
    kept: list[Retention]

    def values(self, over: list[UUID]) -> dict[str, Any]:
        """What the statements need to know, where these policies' rows go."""
        lower, upper = month_bounds(self.start)
        kept = [one for one in [*self.over, *self.kept] if one.policy_id not in over]
        projects = {one.project_id for one in self.over if one.policy_id in over}
        whole = projects - {one.project_id for one in kept}
        return {
            "over": over, "kept": [one.policy_id for one in kept], "lower": lower, "upper": upper,
            "projects": list(projects), "whole_projects": list(whole), "ends_at": month_start(self.start, 1),
        }  # fmt: skip


def begin(connection: Connection, month: Month) -> dict[str, Any] | None:
    """The locks of one transaction; what its statements need to know. None where a step has claimed all there is."""
    over = sorted(one.policy_id for one in month.over)
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
    connection.execute(_HOLD, {"over": over})
    if connection.scalar(_HAS_ACTIVE):
        values = month.values(over)
        taken = set(connection.scalars(_IN_STEP, values))
        over = [id_ for id_ in over if id_ not in taken]
    for project_id in sorted({one.project_id for one in month.over}):
        lock_early(connection, project_id)
    return month.values(over) if over else None


def drop(connection: Connection, month: Month, table: str, values: dict[str, Any]) -> int | None:
    """Drop the partition and count what was in it. None if somebody keeps a row of it."""
    part = partition_name(table, month.start)
    connection.execute(text(f"LOCK TABLE {part} IN SHARE MODE"))  # a late replay waits, and finds DEFAULT
    if connection.scalar(text(f"SELECT {_STAYS[table].format(part=part)}"), values):
        return None
    counted = _BY_PROJECT if table == "reward_events" else _BY_POLICY
    counts = connection.execute(text(counted.format(part=part))).all()
    connection.execute(text(f"DROP TABLE {part}"))
    owners = {(project_id, policy_id): num_rows for project_id, policy_id, num_rows in counts}
    return _record(connection, month.start, table, owners)


def delete_batch(
    connection: Connection, month: Month, table: str, before: UUID, values: dict[str, Any]
) -> tuple[int, UUID | None]:
    """Of the next 1,000 rows below `before`, those that may go: how many, and where to go on; None at the end."""
    part = partition_name(table, month.start)
    page = _PAGE.format(part=part, owned=_owned(connection, month, table))
    ids = list(connection.scalars(text(page), {**values, "before": before, "limit": MAX_BATCH}))
    query = text(f"""
        DELETE FROM {part} AS x WHERE x.id = ANY (CAST(:ids AS uuid[])) AND {GOING[table].format(part=part)}
        RETURNING x.id, x.project_id, {"NULL" if table == "reward_events" else "x.policy_id"} AS policy_id
    """)  # noqa: S608
    gone = connection.execute(query, {**values, "ids": ids}).all() if ids else []
    if table == "trajectories" and gone:
        for name, statement in _WITH_TRAJECTORIES.items():
            _count(connection, month, name, connection.execute(statement, {"ids": [row.id for row in gone]}))
    return _count(connection, month, table, gone), ids[-1] if len(ids) == MAX_BATCH else None


def _owned(connection: Connection, month: Month, table: str) -> str:
    """Whose rows to look at. Events went with their trajectories, but for those whose whole partition went."""
    if table != "reward_events":
        return _OF_POLICIES
    return _OF_WHOLE_PROJECTS if has_partition(connection, "trajectories", month.start) else _OF_PROJECTS


def count_going(connection: Connection, month: Month, table: str, part: str) -> tuple[int, bool]:
    """How many rows of `part` would go, and whether with the whole month. Nothing is locked, nothing changed."""
    values = month.values([one.policy_id for one in month.over])
    num_rows = f"SELECT count(*) FROM {part} AS x WHERE {GOING[table].format(part=part)}"  # noqa: S608
    stays = f"SELECT {_STAYS[table].format(part=part)}"
    return connection.scalar(text(num_rows), values) or 0, not connection.scalar(text(stays), values)


def delete_left_over(connection: Connection, month: Month, table: str, values: dict[str, Any]) -> int:
    """A batch of what nothing is left of."""
    if table in WITH_TRAJECTORIES and has_partition(connection, "trajectories", month.start):
        return 0
    return _count(connection, month, table, connection.execute(LEFT_OVER[table], values))


def _count(connection: Connection, month: Month, table: str, gone: Iterable[Any]) -> int:
    """Rows that went, each in the month of its own id where it has one."""
    months: dict[datetime, Counter[_Owner]] = defaultdict(Counter)
    for row in gone:
        months[month_start(time_of(row.id)) if row.id else month.start][row.project_id, row.policy_id] += 1
    return sum(_record(connection, start, table, owners) for start, owners in sorted(months.items()))


def _record(connection: Connection, start: datetime, table: str, owners: Mapping[_Owner, int]) -> int:
    for (project_id, policy_id), num_rows in owners.items():
        owner = {"project_id": project_id, "policy_id": policy_id, "num_rows": num_rows}
        values = {"id": new_id(), "month": start.date(), "table_name": table, **owner}
        connection.execute(_COUNT_REMOVED, values)
    return sum(owners.values())
