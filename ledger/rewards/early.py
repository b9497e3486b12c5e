"""A reward may come before its row is visible: it waits as an early event until the row is recorded (I5).

Neither side can miss the other: see ledger.recording_lock.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import Question
from ledger.drafts import Draft
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
