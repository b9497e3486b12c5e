"""Which event already says what a post says. Equal posts wait for each other, so that one of them writes it (I5)."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Select, select, text

from ledger.errors import RewardConflictError
from ledger.tables import reward_events

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")


def same_post(connection: Connection, event: dict[str, Any]) -> dict[str, Any] | None:
    """The event that this idempotency id already made. Raises RewardConflictError if it says something else."""
    if event["idempotency_id"] is None:
        return None
    connection.execute(_LOCK, {"name": f"slipstream:post:{event['project_id']}:{event['idempotency_id']}"})
    of = reward_events.c
    found = connection.execute(
        _events().where(of.project_id == event["project_id"], of.idempotency_id == event["idempotency_id"])
    ).first()
    if found is None:
        return None
    if not (
        _is_same(found, event, "metric", "source")
        and _is_same_content(found, event)
        and _is_about(found, event)
    ):
        raise RewardConflictError
    return dict(found._mapping)  # noqa: SLF001 - public, despite its underscore


def same_judgement(connection: Connection, event: dict[str, Any]) -> dict[str, Any] | None:
    """The current judgement if it is equal. Otherwise the event gets an id above it, and will be the current one."""
    place = event["trajectory_id"], event["exchange_id"] or event["target"] * (event["trajectory_id"] is None)
    kind = (event["metric"], event["source"], event["comparison_id"], event["is_whole"])
    name = ":".join(map(str, (event["project_id"], *place, *kind)))
    connection.execute(_LOCK, {"name": f"slipstream:judgement:{name}"})
    current = connection.execute(_judgements(event).order_by(reward_events.c.id.desc()).limit(1)).first()
    if current is None:
        return None
    if _is_same_content(current, event) and event["idempotency_id"] in (None, current.idempotency_id):
        return dict(current._mapping)  # noqa: SLF001 - public, despite its underscore
    event["id"] = max(event["id"], UUID(int=current.id.int + 1))
    return None


def _events() -> Select[tuple[Any, ...]]:
    return select(*(column for column in reward_events.c if column.name != "created_at"))


def _judgements(event: dict[str, Any]) -> Select[tuple[Any, ...]]:
    of = reward_events.c
    names = ("project_id", "trajectory_id", "exchange_id", "metric", "source", "comparison_id")
    wanted = _events().where(*(of[name].is_not_distinct_from(event[name]) for name in names))
    if event["trajectory_id"]:
        return wanted
    return wanted.where(of.target == event["target"], of.is_whole == event["is_whole"])


def _is_same(row: Row[Any], event: dict[str, Any], *names: str) -> bool:
    return all(getattr(row, name) == event[name] for name in names)


def _is_same_content(row: Row[Any], event: dict[str, Any]) -> bool:
    return _is_same(row, event, "value", "content", "comment", "is_retraction", "is_final")


def _is_about(row: Row[Any], event: dict[str, Any]) -> bool:
    is_resolved = row.trajectory_id is not None and _is_same(row, event, "trajectory_id", "exchange_id")
    is_same_target = row.target == event["target"] and row.is_whole == event["is_whole"]
    return is_same_target or is_resolved
