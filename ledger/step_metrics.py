"""Finished steps with their figures, for whoever shows them: the proxies' /metrics, the worker's sinks, `slipstream steps`.

Invariant: nothing is written. Each statement reads by an index, and no more rows than it is told.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

Row = dict[str, Any]

# A step's breakdown beside its figures: one row a step all the same.
_DROPS = """
    (SELECT coalesce(jsonb_object_agg(d.reason, d.num_tokens), '{}') FROM v1.step_drops AS d WHERE d.step_id = m.step_id)
"""
_FINISHED = text(f"""
    SELECT m.*, {_DROPS} AS drops FROM v1.step_metrics AS m
    WHERE (m.finished_at, m.step_id) > (:since, :after) ORDER BY m.finished_at, m.step_id LIMIT :limit
""")  # noqa: S608 - our own constant
_PUBLISHED = text("""
    SELECT m.* FROM v1.step_metrics AS m JOIN training_steps AS s ON s.id = m.step_id
    WHERE s.policy_id = :policy_id AND s.state = 'published' AND s.version > :version ORDER BY s.version LIMIT :limit
""")
_LAST = text(f"""
    SELECT * FROM (
        SELECT m.*, {_DROPS} AS drops, row_number() OVER (PARTITION BY m.project, m.policy ORDER BY m.step_id DESC) AS nth
        FROM v1.step_metrics AS m
        WHERE (CAST(:policy AS text) IS NULL OR m.policy = :policy) AND (CAST(:project AS text) IS NULL OR m.project = :project)
    ) AS found WHERE nth <= :limit ORDER BY project, policy, step_id
""")  # noqa: S608 - our own constant
_RUNNING = text("""
    SELECT m.project, m.policy, m.state, extract(epoch FROM clock_timestamp() - s.updated_at)::double precision AS seconds
    FROM training_steps AS s JOIN v1.step_metrics AS m ON m.step_id = s.id
    WHERE s.state IN ('claimed', 'built', 'updated', 'saved')
""")
_WORKERS = text("""
    SELECT policy, base_model, extract(epoch FROM clock_timestamp() - seen_at)::double precision AS seconds FROM workers
""")
_PAUSED = text("""
    SELECT p.name AS project, policy.name AS policy, policy.paused_at IS NOT NULL AS is_paused
    FROM policies AS policy JOIN projects AS p ON p.id = policy.project_id
""")
NO_ID = UUID(int=0)
BEGINNING = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def finished_steps(connection: Connection, since: datetime, limit: int, after: UUID = NO_ID) -> list[Row]:
    """Published, skipped and failed ones from that moment on (of those that ended in it: behind `after`), in the order in
    which they ended. `drops`: tokens by reason.
    """
    return _rows(connection, _FINISHED, since=since, after=after, limit=limit)


def published_steps(connection: Connection, policy_id: UUID, after_version: int, limit: int) -> list[Row]:
    """Those that made a later version, in order."""
    return _rows(connection, _PUBLISHED, policy_id=policy_id, version=after_version, limit=limit)


def last_steps(connection: Connection, project: str | None, policy: str | None, limit: int) -> list[Row]:
    """The last ones of each policy, whatever became of them, the oldest first."""
    return _rows(connection, _LAST, project=project, policy=policy, limit=limit)


def running_steps(connection: Connection) -> list[Row]:
    """Steps that are not over, with the seconds since their state last changed."""
    return _rows(connection, _RUNNING)


def seen_workers(connection: Connection) -> list[Row]:
    """By policy and base model: how long ago, in seconds, its newest worker was seen alive."""
    return _rows(connection, _WORKERS)


def pauses(connection: Connection) -> list[Row]:
    """Of each policy, whether it is paused."""
    return _rows(connection, _PAUSED)


def _rows(connection: Connection, query: Any, **values: Any) -> list[Row]:
    return [dict(row) for row in connection.execute(query, values).mappings()]
