"""What an erasure cannot undo, and therefore lists: versions that learned from it, files that hold a copy of it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

_STEPS = text("""
    SELECT step_id, count(*) AS num_exchanges FROM step_samples
    WHERE exchange_id = ANY (:ids) AND is_used GROUP BY step_id
""")
_VERSIONS = text("""
    SELECT s.id, s.project, s.policy, s.version, s.state AS step_state, v.is_live
    FROM v1.steps AS s
    LEFT JOIN v1.versions AS v ON v.project = s.project AND v.policy = s.policy AND v.version = s.version
    WHERE s.id = ANY (CAST(:ids AS uuid[])) ORDER BY s.policy, s.version
""")
# By what an export asked for, not by what it found: rather one file too many than one too few.
_EXPORTS = text("""
    SELECT x.id FROM exports AS x WHERE EXISTS (
        SELECT FROM v1.exchanges AS e JOIN trajectories AS t ON t.id = e.trajectory_id
        WHERE e.id = ANY (:ids) AND e.created_at <= coalesce(x.finished_at, now())
            AND e.project = coalesce(x.filters ->> 'project', e.project)
            AND e.policy = coalesce(x.filters ->> 'policy', e.policy)
            AND e.version IS NOT DISTINCT FROM coalesce(CAST(x.filters ->> 'version' AS integer), e.version)
            AND e.started_at >= coalesce(CAST(x.filters ->> 'since' AS timestamptz), e.started_at) - interval '1 hour'
            AND e.started_at <= coalesce(CAST(x.filters ->> 'until' AS timestamptz), e.started_at) + interval '1 hour'
            AND (x.filters -> 'group_ids' IS NULL OR x.filters -> 'group_ids' @> to_jsonb(t.group_id))
    )
""")
_FILES = text("""
    SELECT id, path, format, num_exchanges, finished_at FROM exports WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id
""")


_NO_NEW_EXPORTS = text("LOCK TABLE exports IN SHARE MODE")


def hold_exports(connection: Connection) -> None:
    """An export is noted before it looks at rows: one that is not noted yet waits, and finds them erased."""
    connection.execute(_NO_NEW_EXPORTS)


def steps_of(connection: Connection, exchange_ids: Sequence[UUID]) -> Counter[str]:
    """Steps that used them, and how many."""
    rows = connection.execute(_STEPS, {"ids": list(exchange_ids)})
    return Counter({str(row.step_id): int(row.num_exchanges) for row in rows})


def exports_of(connection: Connection, exchange_ids: Sequence[UUID]) -> set[str]:
    return {str(id_) for id_ in connection.scalars(_EXPORTS, {"ids": list(exchange_ids)})}


def versions(connection: Connection, steps: dict[str, int]) -> list[dict[str, Any]]:
    """A step that is not published yet may have read them already: its version is listed, too."""
    rows = connection.execute(_VERSIONS, {"ids": sorted(steps)})
    return [
        {
            "policy": row.policy, "version": row.version, "step_state": row.step_state,
            "is_live": bool(row.is_live), "num_exchanges": steps[str(row.id)],
        }
        for row in rows
    ]  # fmt: skip


def files(connection: Connection, ids: Sequence[str]) -> list[dict[str, Any]]:
    rows = connection.execute(_FILES, {"ids": list(ids)})
    return [
        {
            "id": str(row.id), "path": row.path, "format": row.format, "num_exchanges": row.num_exchanges,
            "finished_at": row.finished_at and row.finished_at.isoformat(),
        }
        for row in rows
    ]  # fmt: skip
