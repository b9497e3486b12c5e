from datetime import UTC, datetime

from sqlalchemy import Connection, insert, text

from ledger.identifiers import first_id_at
from ledger.partitions import ensure_partitions, month_start
from ledger.policies import ensure_policy
from ledger.tables import trajectories

FAR = datetime(2031, 12, 15, tzinfo=UTC)
WHERE = text("SELECT DISTINCT tableoid::regclass::text FROM trajectories")


def test_months_follow_each_other_over_the_year() -> None:
    assert month_start(FAR, 1) == datetime(2032, 1, 1, tzinfo=UTC)
    assert month_start(FAR, -12) == datetime(2030, 12, 1, tzinfo=UTC)


def test_partitions_are_made_once_and_ahead(connection: Connection) -> None:
    made = ensure_partitions(connection, FAR)
    assert [name for name in made if name.startswith("exchanges")] == [
        "exchanges_2031_11", "exchanges_2031_12", "exchanges_2032_01", "exchanges_2032_02", "exchanges_2032_03",
    ]  # fmt: skip
    assert len(made) == 15
    assert ensure_partitions(connection, FAR) == []


def test_rows_that_came_before_their_partition_move_into_it(connection: Connection) -> None:
    policy = ensure_policy(connection, name="p", base_model="b")
    row = {"project_id": policy.project_id, "policy_id": policy.id, "identified_by": "new"}
    connection.execute(insert(trajectories).values(id=first_id_at(FAR), **row))
    assert connection.execute(WHERE).scalars().all() == ["trajectories_default"]
    ensure_partitions(connection, FAR)
    assert connection.execute(WHERE).scalars().all() == ["trajectories_2031_12"]


def test_a_query_by_id_reads_one_partition(connection: Connection) -> None:
    plan = connection.execute(
        text(f"EXPLAIN SELECT * FROM exchanges WHERE id = '{first_id_at(datetime.now(UTC))}'")
    ).scalars()
    assert sum("Scan" in line and " on " in line for line in plan) == 1


def test_partitions_are_lz4_compressed_where_the_server_can(connection: Connection) -> None:
    """Servers built without lz4 (the embedded one is) keep their default."""
    can = connection.scalar(
        text("SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'")
    )
    compressed = text(
        "SELECT bool_and(attcompression = 'l') FROM pg_attribute WHERE attname IN ('messages', 'prompt_ids')"
        " AND attrelid::regclass::text LIKE 'exchanges%'"
    )
    assert connection.scalar(compressed) is can
