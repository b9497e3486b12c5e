"""What the GET routes answer: plain JSON-able dictionaries, text as the caller sent it, deltas undone.

A number that JSON cannot hold (a logprob of -inf) is null. Ids of another project behave as unknown.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select, text

from ledger.conversation import whole_messages, whole_prompts
from ledger.errors import ChoiceNeededError
from ledger.identifiers import parse_id
from ledger.policies import adapter_name
from ledger.rewards.targets import canonical, resolve
from ledger.tables import exchanges, policies, projects
from ledger.text import from_storable, mapped

_TRAJECTORY = text("SELECT * FROM v1.trajectories WHERE id = :id")
_REWARDS = text("SELECT * FROM v1.rewards WHERE trajectory_id = :id ORDER BY id")
_GROUP = text("SELECT * FROM v1.groups WHERE id = :id")
_LINEAGE = text("SELECT * FROM v1.lineage WHERE trajectory_id = :id ORDER BY version, exchange_id")
_TRAJECTORIES = text("""
    WITH page AS (
        SELECT t.id FROM trajectories AS t JOIN projects AS p ON p.id = t.project_id
        WHERE p.name = :project AND (CAST(:after AS uuid) IS NULL OR t.id < CAST(:after AS uuid))
        ORDER BY t.id DESC LIMIT :limit
    )
    SELECT v.* FROM page CROSS JOIN LATERAL (SELECT * FROM v1.trajectories AS t WHERE t.id = page.id) AS v
    ORDER BY v.id DESC
""")
_EARLY = text("""
    SELECT count(*) FROM reward_events AS e JOIN projects AS p ON p.id = e.project_id
    WHERE p.name = :project AND e.trajectory_id IS NULL AND e.target = :target
""")
_STEPS = text(
    "SELECT * FROM v1.steps WHERE project = :project ORDER BY created_at DESC, id DESC LIMIT :limit"
)
_VERSIONS = text("SELECT * FROM v1.versions WHERE project = :project ORDER BY policy, version DESC")
_INTERNAL = {
    "transcript_sha256", "messages_sha256", "request_sha256", "conversation_sha256", "continues_sha256",
    "num_transcript_tokens", "project_id", "policy_id",
}  # fmt: skip


def read_trajectory(connection: Connection, project: str, text_id: str) -> dict[str, Any] | None:
    """A trajectory by its id, a reply's id or the caller's id, with its turns, rewards, group and steps."""
    trajectory_id = find_trajectory(connection, project, text_id)
    row = trajectory_id and connection.execute(_TRAJECTORY, {"id": trajectory_id}).first()
    if not row:
        return None
    found = plain(row._mapping)  # noqa: SLF001 - public, despite its underscore
    return {
        **found,
        "exchanges": _exchanges(connection, row.id),
        "rewards": _all(connection, _REWARDS, id=row.id),
        "group": next(iter(_all(connection, _GROUP, id=row.group_id)), None),
        "steps": _all(connection, _LINEAGE, id=row.id),
    }


def count_early(connection: Connection, project: str, text_id: str) -> int:
    """How many judgements wait for this id, as it was posted."""
    values = {"project": project, "target": canonical(text_id)}
    found: int = connection.execute(_EARLY, values).scalar_one()
    return found


def list_trajectories(
    connection: Connection, project: str, limit: int, after: str | None = None
) -> list[dict[str, Any]]:
    """Newest first; `after` is the last id of the page before."""
    return _all(
        connection, _TRAJECTORIES, project=project, limit=limit, after=parse_id(after) if after else None
    )


def list_steps(connection: Connection, project: str, limit: int) -> list[dict[str, Any]]:
    """Newest first."""
    return _all(connection, _STEPS, project=project, limit=limit)


def list_versions(connection: Connection, project: str) -> list[dict[str, Any]]:
    """By policy, newest version first."""
    return _all(connection, _VERSIONS, project=project)


def find_trajectory(connection: Connection, project: str, text_id: str) -> UUID | None:
    """The trajectory of this project that the id names: its own, a reply's, or the caller's."""
    project_id = connection.scalar(select(projects.c.id).where(projects.c.name == project))
    if project_id is None:
        return None
    try:
        judged = resolve(connection, project_id, text_id, None)
    except ChoiceNeededError:  # a call with several choices: its first trajectory
        judged = resolve(connection, project_id, text_id, 0)
    return judged.trajectory_id if judged else None


def _exchanges(connection: Connection, trajectory_id: UUID) -> list[dict[str, Any]]:
    rows = connection.execute(
        select(*(column.label(column.key) for column in exchanges.c), policies.c.name.label("policy"))
        .join(policies, policies.c.id == exchanges.c.policy_id)
        .where(exchanges.c.trajectory_id == trajectory_id)
        .order_by(exchanges.c.id)
    ).all()
    return [
        {
            **plain({name: value for name, value in row._mapping.items() if name not in _INTERNAL}),  # noqa: SLF001
            "model": row.answered_model if row.version is None else adapter_name(row.policy, row.version),
            "messages": _json(from_storable(messages)),
            "prompt_ids": prompt_ids,
        }
        for row, messages, prompt_ids in zip(rows, whole_messages(rows), whole_prompts(rows), strict=True)
    ]


def _all(connection: Connection, query: Any, **values: Any) -> list[dict[str, Any]]:
    return [plain(row) for row in connection.execute(query, values).mappings()]


def plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """As JSON can hold it, text as the caller sent it."""
    return {str(name): _json(from_storable(value)) for name, value in row.items()}


def _json(value: Any) -> Any:
    return mapped(value, str, _json_leaf)


def _json_leaf(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
