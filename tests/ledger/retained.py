"""A ledger with rows of months ago, and what retention made of them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from ledger.identifiers import choice_id, first_id_at, new_call_id
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.retention import set_retention
from ledger.upkeep import Removed, apply_retention, plan_retention
from tests.ledger.calls import a_call, an_attribution, rows

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MARCH = datetime(2026, 3, 10, tzinfo=UTC)
APRIL = datetime(2026, 4, 10, tzinfo=UTC)


def run(engine: Engine, now: datetime, **values: Any) -> list[Removed]:
    with engine.connect() as connection:
        return apply_retention(connection, now, **values)[0]


def plan(engine: Engine) -> list[Removed]:
    with engine.connect() as connection:
        return plan_retention(connection, NOW)[0]


def then(moment: datetime, **changes: Any) -> CallRecord:
    """A call whose ids say that it came then (at a random millisecond of that hour)."""
    call_id = UUID(int=new_call_id().int % (1 << 80) + (first_id_at(moment).int & ~((1 << 80) - 1)))
    attribution = an_attribution(trajectory_id=choice_id(call_id, 7))
    return a_call(call_id=call_id, **({"attribution": attribution} | changes))


def record(connection: Connection, *calls: CallRecord) -> None:
    with connection.begin():
        record_calls(connection, calls)


def as_if_recorded_then(connection: Connection) -> None:
    """A group's clock is Postgres': here it is as old as the ids of its members."""
    began = "to_timestamp(CAST(CAST('x' || left(replace(max(CAST(id AS text)), '-', ''), 12) AS bit(48)) AS bigint) / 1000.0)"
    with connection.begin():
        connection.execute(
            text(f"""
            UPDATE groups SET last_member_at = t.began_at
            FROM (SELECT group_id, {began} AS began_at FROM trajectories GROUP BY 1) AS t WHERE t.group_id = groups.id
            """)
        )


def keep(
    connection: Connection, days: int | None, project: str = "default", policy: str | None = None
) -> None:
    with connection.begin():
        set_retention(connection, project, policy, days)


def has(connection: Connection, table: str) -> bool:
    with connection.begin():
        return connection.scalar(text("SELECT to_regclass(:table)"), {"table": table}) is not None


def count(connection: Connection, table: str) -> int:
    with connection.begin():
        return int(connection.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


def removed(connection: Connection) -> list[tuple[Any, ...]]:
    with connection.begin():
        return rows(
            connection,
            "SELECT r.month, r.table_name, p.name, policy.name, r.num_rows FROM removals AS r"
            " JOIN projects AS p ON p.id = r.project_id LEFT JOIN policies AS policy ON policy.id = r.policy_id"
            " ORDER BY r.month, r.table_name, p.name, policy.name",
        )


def train(connection: Connection, state: str) -> None:
    """A step over the explicit group, in this state."""
    with connection.begin():
        connection.execute(
            text("""
            WITH step AS (
                INSERT INTO training_steps (id, policy_id, version, parent_version, state, seed, settings)
                SELECT gen_random_uuid(), policy_id, 1, 0, :state, 0, '{}' FROM groups WHERE kind = 'explicit'
                RETURNING id
            ), taken AS (
                UPDATE groups SET state = CASE WHEN :state = 'published' THEN 'trained' ELSE 'claimed' END,
                    step_id = step.id FROM step WHERE kind = 'explicit'
            )
            INSERT INTO step_samples (step_id, exchange_id, trajectory_id, group_id, advantage, staleness,
                num_completion_tokens, is_used)
            SELECT step.id, e.id, t.id, t.group_id, 0.5, 0, 3, true FROM step, groups AS g
            JOIN trajectories AS t ON t.group_id = g.id JOIN exchanges AS e ON e.trajectory_id = t.id
            WHERE g.kind = 'explicit'
            """),
            {"state": state},
        )
