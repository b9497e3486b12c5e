"""How Postgres answers the documented queries: only the months asked for, and by an index where few rows are meant."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Connection, text

from bench.ledger.plans import SELECTIVE, nodes, read_whole
from ledger.database import sync_engine
from ledger.identifiers import first_id_at
from tests.ledger.conftest import LoadedWorld

SINCE = "v1.first_id_at('2026-11-20')"


@pytest.fixture(scope="module")
def loaded(world: LoadedWorld) -> Iterator[Connection]:
    engine = sync_engine(world.url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def scanned(plan: list[dict[str, Any]]) -> set[str]:
    return {node["Relation Name"] for node in plan if "Relation Name" in node}


@pytest.mark.parametrize("name", SELECTIVE)
def test_few_rows_are_found_by_an_index(loaded: Connection, name: str) -> None:
    assert read_whole(loaded, name) == []


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
