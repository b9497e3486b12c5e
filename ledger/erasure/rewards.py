"""Judgements of what was erased: the value stays, and what counts; what was said, and by what name, goes.

A source that is none of the usual words may name a person: it becomes a number, so that judges stay apart.
"""

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

USUAL_SOURCES = ("user", "program", "judge", "scorer", "cli")
ERASED_SOURCE = "^erased(-[0-9]+)?$"
_ERASE = text(f"""
    UPDATE reward_events AS r SET comment = NULL, content = NULL, idempotency_id = NULL,
        target = CAST(coalesce(r.exchange_id, r.trajectory_id) AS text), source = named.source
    FROM (
        SELECT id, CASE WHEN source = ANY (CAST(:usual AS text[])) OR source ~ '{ERASED_SOURCE}' THEN source
            ELSE 'erased-' || dense_rank() OVER (PARTITION BY trajectory_id ORDER BY source) END AS source
        FROM reward_events
        WHERE trajectory_id = ANY (CAST(:trajectory_ids AS uuid[]))
    ) AS named
    WHERE r.id = named.id AND r.trajectory_id = ANY (CAST(:trajectory_ids AS uuid[]))
        AND (r.exchange_id = ANY (CAST(:exchange_ids AS uuid[]))
            OR EXISTS (SELECT FROM trajectories AS t WHERE t.id = r.trajectory_id AND t.erased_at IS NOT NULL))
        AND (r.comment IS NOT NULL OR r.content IS NOT NULL OR r.idempotency_id IS NOT NULL
            OR r.source <> named.source
            OR r.target <> CAST(coalesce(r.exchange_id, r.trajectory_id) AS text))
    RETURNING r.id
""")  # noqa: S608 - a constant


def erase_rewards(
    connection: Connection, exchange_ids: Sequence[UUID], trajectory_ids: Sequence[UUID]
) -> int:
    """Events of these exchanges, and all of those trajectories (theirs) that are erased; how many had something to erase."""
    if not exchange_ids:
        return 0
    values = {
        "usual": list(USUAL_SOURCES),
        "exchange_ids": list(exchange_ids),
        "trajectory_ids": list(trajectory_ids),
    }
    return len(connection.execute(_ERASE, values).all())


def names_nobody(source: str) -> bool:
    """A usual word, or the number that an erasure made of a name: whoever takes that back says it."""
    return source in USUAL_SOURCES or re.search(ERASED_SOURCE, source) is not None


def without_words(trajectory_id: UUID, exchange_id: UUID | None, source: str) -> dict[str, Any]:
    """The members of a new event that are left of it where its trajectory is erased."""
    return {
        "target": str(exchange_id or trajectory_id),
        "content": None,
        "comment": None,
        "idempotency_id": None,
        "source": source if names_nobody(source) else "erased",
    }
