"""Rows of training_steps as they are when a step has ended, without one that ran."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert

from ledger.identifiers import new_id
from ledger.policies import Policy
from ledger.tables import training_steps

START = datetime(2026, 11, 1, tzinfo=UTC)


def add_step(
    connection: Connection, policy: Policy, version: int, state: str = "published", **columns: Any
) -> None:
    """The step of version n begins n hours after START, and ends a minute later."""
    values: dict[str, Any] = {
        "id": new_id(),
        "policy_id": policy.id,
        "version": version,
        "parent_version": version - 1,
        "state": state,
        "seed": 1,
        "settings": {},
        "metrics": {},
        "created_at": START + timedelta(hours=version),
        "finished_at": START + timedelta(hours=version, seconds=60),
    }
    connection.execute(insert(training_steps).values(values | columns))
