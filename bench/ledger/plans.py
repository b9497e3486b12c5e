"""How Postgres answers a query: which tables it reads whole. As its own settings decide: nothing is switched off."""

import json
from typing import Any

from sqlalchemy import Connection, text

from ledger.database import sync_engine

# Few rows are meant: by an index, however many there are.
SELECTIVE = {
    "a trajectory by its id": "SELECT * FROM v1.trajectories WHERE id = '{trajectory}'",
    "its exchanges": "SELECT * FROM v1.exchanges WHERE trajectory_id = '{trajectory}' ORDER BY id",
    "its rewards": "SELECT * FROM v1.rewards WHERE trajectory_id = '{trajectory}'",
    "an exchange by its id": "SELECT * FROM v1.exchanges WHERE id = '{exchange}'",
    "a group by its id": "SELECT * FROM v1.groups WHERE id = '{group}'",
    "what is open": "SELECT * FROM v1.groups WHERE state = 'open' AND policy = 'support' AND num_scored > 0",
    "what an exchange taught": "SELECT * FROM v1.lineage WHERE exchange_id = '{exchange}'",
}
LARGE = ("exchanges_", "trajectories_", "reward_events_", "groups", "step_samples")
MANY = 500  # a table with fewer rows is rightly read whole
_ONE = text(
    "SELECT trajectory_id AS trajectory, exchange_id AS exchange, group_id AS group FROM step_samples WHERE is_used LIMIT 1"
)
_SIZES = text("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'")


def nodes(connection: Connection, query: str, options: str = "") -> list[dict[str, Any]]:
    """Every node of the plan."""
    found = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON{options}) {query}").scalar_one()
    waiting = [(found if isinstance(found, list) else json.loads(found))[0]["Plan"]]
    for node in waiting:
        waiting.extend(node.get("Plans", []))
    return waiting


def read_whole(connection: Connection, name: str) -> list[str]:
    """The large tables that a query of SELECTIVE reads from the first row to the last: none, if all is well."""
    ids = connection.execute(_ONE).one()._mapping  # noqa: SLF001 - public, despite its underscore
    query = SELECTIVE[name].format(**ids)
    if connection.exec_driver_sql(query).first() is None:
        raise AssertionError(f"{name}: nothing was found")
    whole = [node["Relation Name"] for node in nodes(connection, query) if node["Node Type"] == "Seq Scan"]
    sizes = {row[0]: row[1] for row in connection.execute(_SIZES)}
    return [relation for relation in whole if relation.startswith(LARGE) and sizes[relation] > MANY]


def all_read_whole(url: str) -> list[str]:
    engine = sync_engine(url)
    with engine.connect() as connection:
        found = [f"{name}: {relation}" for name in SELECTIVE for relation in read_whole(connection, name)]
    engine.dispose()
    return found
