"""The floor: the same events by a plain connection of psycopg, each inserted and committed by itself.

Nobody looks anything up, checks, or waits for another; so no post that is durable can cost less than a turn of this.
"""

import time
from collections.abc import Sequence
from uuid import UUID

import psycopg

from ledger.identifiers import new_id

_OF = "SELECT e.project_id, e.trajectory_id, e.id FROM exchanges AS e WHERE e.id = ANY (%s) ORDER BY e.id"
_INSERT = """
INSERT INTO reward_events (id, project_id, target, trajectory_id, exchange_id, metric, value, source, idempotency_id, observed_at)
VALUES (%s, %s, %s, %s, %s, 'reward', %s, 'floor', %s, now())
"""


def insert_for(url: str, ids: Sequence[UUID], seconds: float, per_second: float = 0.0) -> list[float]:
    """How long each took, in ms, from the moment it was due."""
    took: list[float] = []
    with psycopg.connect(url) as connection:
        events = connection.execute(_OF, (list(ids),)).fetchall()
        connection.commit()
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            due = began + len(took) / per_second if per_second else now
            time.sleep(max(0.0, due - now))
            project_id, trajectory_id, exchange_id = events[len(took) % len(events)]
            value, own_id = float(len(took) % 2), f"floor-{per_second}-{len(took)}"
            of = (project_id, str(exchange_id), trajectory_id, exchange_id)
            connection.execute(_INSERT, (new_id(), *of, value, own_id))
            connection.commit()
            took.append((time.perf_counter() - due) * 1000)
    return took
