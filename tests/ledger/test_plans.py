"""How Postgres answers the documented queries: only the months asked for, and by an index where few rows are meant."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Connection, text

from ledger.database import sync_engine
from ledger.identifiers import first_id_at
from tests.ledger.conftest import LoadedWorld

SINCE = "v1.first_id_at('2026-11-20')"
SELECTIVE = {
    "a trajectory by its id": "SELECT * FROM v1.trajectories WHERE id = '{trajectory}'",
    "its exchanges": "SELECT * FROM v1.exchanges WHERE trajectory_id = '{trajectory}' ORDER BY id",
    "its rewards": "SELECT * FROM v1.rewards WHERE trajectory_id = '{trajectory}'",
    "an exchange by its id": "SELECT * FROM v1.exchanges WHERE id = '{exchange}'",
    "a group by its id": "SELECT * FROM v1.groups WHERE id = '{group}'",
    "what is open": "SELECT * FROM v1.groups WHERE state = 'open' AND policy = 'support' AND has_signal",
    "what an exchange taught": "SELECT * FROM v1.lineage WHERE exchange_id = '{exchange}'",
}
LARGE = ("exchanges_2026", "trajectories_2026", "reward_events_2026", "groups", "step_samples")
MANY = 500  # a partition with fewer rows than this is rightly read whole


@pytest.fixture(scope="module")
def loaded(world: LoadedWorld) -> Iterator[Connection]:
    engine = sync_engine(world.url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def nodes(connection: Connection, query: str, options: str = "") -> list[dict[str, Any]]:
    """Every node of the plan, as Postgres' own settings make it: nothing is switched off."""
    found = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON{options}) {query}").scalar_one()
    waiting = [(found if isinstance(found, list) else json.loads(found))[0]["Plan"]]
    for node in waiting:
        waiting.extend(node.get("Plans", []))
    return waiting


def scanned(plan: list[dict[str, Any]]) -> set[str]:
    return {node["Relation Name"] for node in plan if "Relation Name" in node}


@pytest.mark.parametrize("name", SELECTIVE)
def test_few_rows_are_found_by_an_index(loaded: Connection, world: LoadedWorld, name: str) -> None:
    task = next(task for task in world.tasks if task.step and task.trajectories[0].rewards)
    trajectory = task.trajectories[0]
    ids = {
        "trajectory": f"{trajectory.id:032x}",
        "exchange": f"{trajectory.exchanges[0].id:032x}",
        "group": f"{task.id:032x}",
    }
    query = SELECTIVE[name].format(**ids)
    assert loaded.exec_driver_sql(query).first() is not None
    whole = [n["Relation Name"] for n in nodes(loaded, query) if n["Node Type"] == "Seq Scan"]
    sizes = {row[0]: row[1] for row in loaded.execute(text("SELECT relname, reltuples FROM pg_class"))}
    assert [relation for relation in whole if relation.startswith(LARGE) and sizes[relation] > MANY] == []


@pytest.mark.parametrize("view", ["trajectories", "exchanges", "rewards"])
def test_a_time_range_reads_only_its_months(loaded: Connection, view: str) -> None:
    read = scanned(nodes(loaded, f"SELECT count(*) FROM v1.{view} WHERE id >= {SINCE}"))
    months = {relation[-7:] for relation in read if "_20" in relation}
    assert "2026_11" in months
    assert min(months) == "2026_11"


def test_a_range_from_now_skips_the_months_before_it_when_it_runs(loaded: Connection) -> None:
    query = "SELECT count(*) FROM v1.exchanges WHERE id >= v1.first_id_at(now() - interval '1 day')"
    append = next(n for n in nodes(loaded, query, ", ANALYZE") if n["Node Type"] == "Append")
    assert append["Subplans Removed"] > 0


@pytest.mark.parametrize(
    ("columns", "unread"),
    [
        ("id, policy, end_user", {"exchanges", "reward_events", "step_samples"}),
        ("id, reward", {"exchanges", "step_samples"}),
        ("id, num_exchanges", {"reward_events", "step_samples"}),
    ],
)
def test_what_nobody_asks_a_trajectory_is_not_computed(
    loaded: Connection, columns: str, unread: set[str]
) -> None:
    read = scanned(nodes(loaded, f"SELECT {columns} FROM v1.trajectories WHERE id >= {SINCE}"))
    assert {relation for relation in read if relation.startswith(tuple(unread))} == set()


def test_an_exchange_looks_up_its_trajectory_and_its_key_only_for_their_columns(loaded: Connection) -> None:
    read = scanned(
        nodes(loaded, f"SELECT id, version, num_prompt_tokens FROM v1.exchanges WHERE id >= {SINCE}")
    )
    assert {relation for relation in read if not relation.startswith("exchanges_")} == set()


@pytest.mark.parametrize(
    "moment", ["2026-11-20T00:00:00Z", "1970-01-01T00:00:00Z", "2026-11-20T01:00:00.123+02:00"]
)
def test_the_first_id_of_a_moment_is_the_smallest_of_its_millisecond(
    connection: Connection, moment: str
) -> None:
    found = connection.scalar(text("SELECT v1.first_id_at(CAST(:moment AS timestamptz))"), {"moment": moment})
    assert found == first_id_at(datetime.fromisoformat(moment))
