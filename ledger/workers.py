"""What the trainer runs with, in Postgres: whoever explains what a step will do is another process with another environment.

Invariant: only what decides when a step begins and what it trains; no address, no secret.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

_STARTED = text("""
    INSERT INTO workers (policy, base_model, owner, settings, started_at, seen_at)
    VALUES (:policy, :base_model, :owner, CAST(:settings AS jsonb), clock_timestamp(), clock_timestamp())
    ON CONFLICT (policy, base_model) DO UPDATE SET
        owner = excluded.owner, settings = excluded.settings, started_at = excluded.started_at, seen_at = excluded.seen_at
""")
_SEEN = text("""
    UPDATE workers SET seen_at = clock_timestamp() WHERE policy = :policy AND base_model = :base_model
""")
_OF_POLICY = text("""
    SELECT w.settings, w.started_at, w.seen_at FROM workers AS w
    JOIN policies AS p ON p.name = w.policy AND p.base_model = w.base_model
    WHERE p.id = :policy_id
""")

_NEWEST = text(
    "SELECT settings, started_at, seen_at FROM workers WHERE policy = :policy ORDER BY started_at DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Worker:
    """The newest that was started for a policy. `settings` by their names in docs/settings.md, lower case, without prefix."""

    settings: dict[str, Any]
    started_at: datetime
    seen_at: datetime


def worker_started(
    connection: Connection, *, policy: str, base_model: str, owner: str, settings: dict[str, Any]
) -> None:
    """The newest start is what is told, whatever older processes run with."""
    values = {"policy": policy, "base_model": base_model, "owner": owner, "settings": json.dumps(settings)}
    connection.execute(_STARTED, values)


def worker_seen(connection: Connection, *, policy: str, base_model: str) -> None:
    connection.execute(_SEEN, {"policy": policy, "base_model": base_model})


def worker_of(connection: Connection, policy_id: UUID) -> Worker | None:
    """None = none was ever started for this policy's name and base model."""
    row = connection.execute(_OF_POLICY, {"policy_id": policy_id}).one_or_none()
    return None if row is None else Worker(row.settings, row.started_at, row.seen_at)


def newest_worker(connection: Connection, policy: str) -> Worker | None:
    """The newest that was started for a policy of this name, on whichever base."""
    row = connection.execute(_NEWEST, {"policy": policy}).one_or_none()
    return None if row is None else Worker(row.settings, row.started_at, row.seen_at)
