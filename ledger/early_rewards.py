"""A reward may come before its row is visible: it waits as an early event until the row is recorded (I5).

Neither side can miss the other. A recorder shares a lock per project until it commits; who posts for an unknown
target takes that lock alone, so whatever was being recorded is visible by then and whatever comes later will look.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.drafts import Draft
from ledger.targets import targets_of

_LOCK_RECORDING = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")
_LOCK_EARLY = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_RECONCILE = text("""
    UPDATE reward_events AS e SET trajectory_id = known.trajectory_id, exchange_id = known.exchange_id
    FROM unnest(
        CAST(:project_ids AS uuid[]), CAST(:targets AS text[]), CAST(:trajectory_ids AS uuid[]),
        CAST(:exchange_ids AS uuid[])
    ) AS known (project_id, target, trajectory_id, exchange_id)
    WHERE e.trajectory_id IS NULL AND e.project_id = known.project_id AND e.target = known.target
""")


def lock_recording(connection: Connection, project_ids: Iterable[UUID]) -> None:
    """Taken by a recorder before it writes anything."""
    for project_id in sorted(project_ids):
        connection.execute(_LOCK_RECORDING, {"name": f"slipstream:recording:{project_id}"})


def lock_early(connection: Connection, project_id: UUID) -> None:
    """Waits for the recorders of a project, and holds back the next ones: after it, unknown means not recorded."""
    connection.execute(_LOCK_EARLY, {"name": f"slipstream:recording:{project_id}"})


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
