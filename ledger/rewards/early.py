"""A reward may come before its row is visible: it waits as an early event until the row is recorded (I5).

Neither side can miss the other: see ledger.recording_lock.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import Question
from ledger.drafts import Draft
from ledger.identifiers import MAX_CHOICES
from ledger.rewards.targets import targets_of

_WAITING = text("""
    SELECT FROM reward_events WHERE trajectory_id IS NULL AND project_id = ANY (CAST(:project_ids AS uuid[])) LIMIT 1
""")
_RECONCILE = text("""
    UPDATE reward_events AS e SET trajectory_id = known.trajectory_id,
        exchange_id = CASE WHEN NOT e.is_whole THEN known.exchange_id END
    FROM unnest(
        CAST(:project_ids AS uuid[]), CAST(:targets AS text[]), CAST(:trajectory_ids AS uuid[]),
        CAST(:exchange_ids AS uuid[])
    ) AS known (project_id, target, trajectory_id, exchange_id)
    WHERE e.trajectory_id IS NULL AND e.project_id = known.project_id AND e.target = known.target
""")
# What was said again, or taken back, by the same words waits no more.
_CURRENT = """
    r.trajectory_id IS NULL AND NOT r.is_retraction AND NOT EXISTS (
        SELECT FROM reward_events AS later
        WHERE later.trajectory_id IS NULL AND later.project_id = r.project_id AND later.target = r.target AND later.id > r.id
            AND later.metric = r.metric AND later.source = r.source AND later.is_whole = r.is_whole
            AND later.comparison_id IS NOT DISTINCT FROM r.comparison_id
    )
"""
# What names a call that is recorded, and is early all the same: the call has several choices.
_BY_PROJECT = text(f"""
    SELECT p.name AS project, count(*) AS num_events, count(call.id) AS num_without_choice,
        CAST(extract(epoch FROM now() - min(r.created_at)) AS double precision) AS oldest_seconds
    FROM reward_events AS r
    JOIN projects AS p ON p.id = r.project_id
    LEFT JOIN exchanges AS call ON call.project_id = r.project_id AND call.id = CASE
        WHEN r.target ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$' THEN CAST(r.target AS uuid)
    END
    WHERE {_CURRENT} AND r.id >= v1.first_id_at(now() - CAST(:period AS interval))
    GROUP BY 1 ORDER BY 1
""")  # noqa: S608 - put together from constants
_WITHOUT_CHOICE = text(f"""
    SELECT r.id, r.target AS call_id, r.source, r.metric, r.value, r.created_at
    FROM reward_events AS r JOIN projects AS p ON p.id = r.project_id
    WHERE {_CURRENT} AND p.name = :project AND r.target = ANY (CAST(:targets AS text[])) ORDER BY r.id
""")  # noqa: S608 - put together from constants


def are_waiting(drafts: Sequence[Draft]) -> Question:
    """Whether there are any in the projects of these drafts. Asked under the lock, the answer holds until the commit."""
    return _WAITING, {"project_ids": list({draft.project_id for draft in drafts})}


def reconcile(connection: Connection, drafts: Sequence[Draft], placed: Mapping[UUID, UUID]) -> None:
    """Name the trajectory of early events whose target was just recorded."""
    known = {
        (draft.policy.project_id, target): judged
        for draft in reversed(drafts)
        for target, judged in targets_of(draft, placed[draft.id])
    }
    connection.execute(
        _RECONCILE,
        {
            "project_ids": [project_id for project_id, _ in known],
            "targets": [target for _, target in known],
            "trajectory_ids": [judged.trajectory_id for judged in known.values()],
            "exchange_ids": [judged.exchange_id for judged in known.values()],
        },
    )


def early_by_project(connection: Connection, days: float) -> dict[str, dict[str, Any]]:
    """Of the last days: how many wait, for how long the oldest does, and how many only lack a `choice`."""
    rows = connection.execute(_BY_PROJECT, {"period": timedelta(days=days)}).mappings()
    return {row["project"]: {name: row[name] for name in row if name != "project"} for row in rows}


def early_without_choice(
    connection: Connection, project: str, exchange_ids: Sequence[UUID]
) -> list[dict[str, Any]]:
    """What names the calls of these exchanges, which are recorded, but not which of their choices: it waits for ever."""
    calls = {str(UUID(int=id_.int // MAX_CHOICES * MAX_CHOICES)) for id_ in exchange_ids}
    rows = connection.execute(_WITHOUT_CHOICE, {"project": project, "targets": sorted(calls)})
    return [dict(row) for row in rows.mappings()]
