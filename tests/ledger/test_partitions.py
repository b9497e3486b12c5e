import re
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, insert, text

from ledger.database import sync_engine
from ledger.identifiers import first_id_at
from ledger.partitions import MAX_FOUND, ensure_partitions, month_bounds, month_start, partition_name
from ledger.policies import ensure_policy
from ledger.retention import set_retention
from ledger.tables import trajectories
from ledger.upkeep import apply_retention

FAR = datetime(2031, 12, 15, tzinfo=UTC)
WHERE = text("SELECT DISTINCT tableoid::regclass::text FROM trajectories ORDER BY 1")


def test_months_follow_each_other_over_the_year() -> None:
    assert month_start(FAR, 1) == datetime(2032, 1, 1, tzinfo=UTC)
    assert month_start(FAR, -12) == datetime(2030, 12, 1, tzinfo=UTC)


def test_the_bounds_of_a_month_are_ids() -> None:
    """December 2026 begins 1,796,083,200,000 = 0x01a22ee6b000 ms after 1970, January 2027 at 0x01a2ce8bd400."""
    december = month_start(datetime(2026, 12, 24, 18, tzinfo=UTC))
    lower, upper = month_bounds(december)
    assert (lower, upper) == (UUID(int=0x01A22EE6B000 << 80), UUID(int=0x01A2CE8BD400 << 80))
    assert partition_name("exchanges", december) == "exchanges_2026_12"
    assert month_start(datetime(2026, 12, 31, 23, 30, tzinfo=timezone(timedelta(hours=-1)))).year == 2027


def test_partitions_are_made_once_and_ahead(connection: Connection) -> None:
    made = ensure_partitions(connection, FAR)
    assert [name for name in made if name.startswith("exchanges")] == [
        "exchanges_2031_12", "exchanges_2032_01", "exchanges_2032_02", "exchanges_2032_03",
    ]  # fmt: skip
    assert len(made) == 12
    assert ensure_partitions(connection, FAR) == []


def begin(connection: Connection, *moments: datetime) -> None:
    """Trajectories whose ids say that they began then."""
    policy = ensure_policy(connection, name="p", base_model="b")
    row = {"project_id": policy.project_id, "policy_id": policy.id, "identified_by": "new"}
    connection.execute(insert(trajectories), [{"id": first_id_at(moment), **row} for moment in moments])
    connection.commit()


def lie_in(connection: Connection) -> list[str]:
    found = list(connection.scalars(WHERE))
    connection.rollback()
    return found


def test_rows_that_came_before_their_partition_move_into_it(connection: Connection) -> None:
    begin(connection, FAR)
    assert lie_in(connection) == ["trajectories_default"]
    ensure_partitions(connection, FAR)
    assert lie_in(connection) == ["trajectories_2031_12"]


def test_a_row_of_any_id_time_is_taken_and_past_months_get_their_partitions(connection: Connection) -> None:
    """Replays and imports of old rows, the first day of UUIDv7, and a clock that ran ahead."""
    past = [datetime(1970, 1, 1, tzinfo=UTC), datetime(2019, 12, 31, 23, 59, tzinfo=UTC)]
    future = [datetime(2400, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)]
    begin(connection, *past, *future)
    made = ensure_partitions(connection, FAR)
    assert {"trajectories_1970_01", "trajectories_2019_12"} <= set(made)
    assert lie_in(connection) == ["trajectories_1970_01", "trajectories_2019_12", "trajectories_default"]
    assert connection.scalar(text("SELECT count(*) FROM trajectories_default")) == 2
    connection.rollback()
    ensure_partitions(connection, datetime(2400, 1, 15, tzinfo=UTC))
    assert "trajectories_2400_01" in lie_in(connection)


def test_retention_and_the_making_of_partitions_never_undo_each_other(connection: Connection) -> None:
    """The month before is not made ahead: kept for a day, it would be made and dropped for ever."""
    begin(connection, FAR)
    with connection.begin():
        set_retention(connection, "default", None, 1)
    ensure_partitions(connection, FAR)
    in_a_month = FAR + timedelta(days=31)
    ensure_partitions(connection, in_a_month)
    assert any(one.is_dropped for one in apply_retention(connection, in_a_month)[0])
    assert ensure_partitions(connection, in_a_month) == []
    assert apply_retention(connection, in_a_month) == ([], [])


def test_old_months_are_made_a_few_at_a_time(connection: Connection) -> None:
    begin(connection, *[month_start(FAR, -12 - k) for k in range(MAX_FOUND + 1)])
    made = ensure_partitions(connection, FAR)
    assert sum(name.startswith("trajectories") for name in made) == MAX_FOUND + 4
    assert ensure_partitions(connection, FAR) == ["trajectories_2030_12"]


def test_an_import_says_which_months_it_is_about_to_write(connection: Connection) -> None:
    ensure_partitions(connection, FAR)
    made = ensure_partitions(connection, FAR, also=[datetime(2020, 2, 29, tzinfo=UTC)])
    assert made == ["trajectories_2020_02", "exchanges_2020_02", "reward_events_2020_02"]


def test_many_rows_in_default_are_left_to_migrate(connection: Connection) -> None:
    """To move them would hold up traffic; they are in the table all the same."""
    begin(connection, FAR, FAR + timedelta(hours=1))
    assert not [
        name for name in ensure_partitions(connection, FAR, max_moved=1) if "trajectories_2031_12" in name
    ]
    assert lie_in(connection) == ["trajectories_default"]
    assert ensure_partitions(connection, FAR, max_moved=None) == ["trajectories_2031_12"]


def test_a_table_in_use_postpones_its_partitions_alone(
    connection: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst's long query: traffic never queues behind us for long, and the others are made."""
    monkeypatch.setattr("ledger.partitions.LOCK_TIMEOUT", "50ms")
    with engine.connect() as analyst:
        analyst.execute(text("SELECT count(*) FROM exchanges"))
        made = ensure_partitions(connection, FAR)
        assert {name.rsplit("_", 2)[0] for name in made} == {"trajectories", "reward_events"}
    assert len(ensure_partitions(connection, FAR)) == 4


def test_twenty_makers_at_once_make_each_partition_once(engine: Engine, database_url: str) -> None:
    """Proxies and workers of a whole fleet, started together."""
    made: list[str] = []

    def make() -> None:
        own = sync_engine(database_url, pool_size=1)
        with own.connect() as connection:
            made.extend(ensure_partitions(connection, FAR))
        own.dispose()

    threads = [threading.Thread(target=make) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(set(made)) == 12


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


def test_the_arithmetic_of_ids_that_the_docs_show_is_right(connection: Connection) -> None:
    """docs/sql.md: the time of an id, the first id of a time, and what was removed."""
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    section = page.split("## Partitions and retention")[1].split("\n## ")[0]
    statements = [
        part for block in re.findall(r"```sql\n(.*?)```", section, re.DOTALL) for part in block.split(";\n")
    ]
    time_of_id, removals = [part for part in statements if part.strip()]
    assert "01a22ee6-b000-0000-0000-000000000000" in section
    december = connection.scalar(text("SELECT v1.first_id_at('2026-12-01 00\\:00+00')"))
    assert str(december) == "01a22ee6-b000-0000-0000-000000000000"
    a_time = time_of_id.replace(
        "v1.exchanges", "(VALUES (CAST('01a22ee6-b000-7000-8000-000000000000' AS uuid))) AS x (id)"
    )
    assert connection.scalar(text(escaped(a_time))) == datetime(2026, 12, 1, tzinfo=UTC)
    assert connection.execute(text(removals)).all() == []


def escaped(sql: str) -> str:
    """A colon in a literal is no parameter."""
    return sql.replace(":", r"\:")
