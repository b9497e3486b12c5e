"""What is kept beside the traffic goes with its month: comparisons, runs of judge and siblings, running baselines."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from tests.ledger.calls import an_attribution, rows
from tests.ledger.retained import MARCH, NOW, count, keep, record, removed, run, then

_HALF = text("""
    INSERT INTO reward_events (id, project_id, target, trajectory_id, metric, value, source, is_retraction, comparison_id, observed_at)
    SELECT :id, project_id, external_id, id, 'comparison', 1, 'user', false, :comparison_id, now()
    FROM trajectories WHERE external_id = :name
""")
_EARLY = text("""
    INSERT INTO reward_events (id, project_id, target, metric, value, source, is_retraction, comparison_id, observed_at)
    SELECT :id, id, :name, 'comparison', 0, 'user', false, :comparison_id, now() FROM projects WHERE name = 'default'
""")
_COMPARISON = text("""
    INSERT INTO comparisons (id, project_id, preferred_event_id, other_event_id)
    SELECT :id, id, :preferred, :other FROM projects WHERE name = 'default'
""")
_RUNS = [
    text("""
        INSERT INTO judge_runs (id, project_id, policy_id, group_id, model, state, num_votes, expires_at)
        SELECT :id, project_id, id, :id, 'm', 'finished', 1, now() FROM policies WHERE id = :policy_id
    """),
    text("""
        INSERT INTO sibling_runs (id, project_id, policy_id, trajectory_id, exchange_id, group_id, sibling_ids, state)
        SELECT :id, project_id, id, :id, :id, :id, '{}', 'finished' FROM policies WHERE id = :policy_id
    """),
    text("""
        INSERT INTO route_baselines (policy_id, route, mean, variance, num_samples, step_id, updated_at)
        SELECT id, :id, 0, 0, 1, :id, :moment FROM policies WHERE id = :policy_id
    """),
]


_POLICIES = """
    SELECT o.name, o.id FROM policies AS o JOIN projects AS p ON p.id = o.project_id WHERE p.name = 'default'
"""


def march_id() -> UUID:
    return then(MARCH).call_id


def compare_in_march(connection: Connection, preferred: str, other: str) -> None:
    ids = {"preferred": march_id(), "other": march_id()}
    values: dict[str, Any] = {"id": march_id()} | ids
    connection.execute(_COMPARISON, values)
    for side, name in (("preferred", preferred), ("other", other)):
        statement = _EARLY if name == "never" else _HALF
        connection.execute(statement, {"id": ids[side], "comparison_id": values["id"], "name": name})


def test_what_tells_of_a_month_goes_with_it(ledger: Connection, engine: Engine) -> None:
    """a and b go; c is another policy's, which is kept: so is the comparison with it, and what waits beside it."""
    keep(ledger, 30)
    keep(ledger, 10_000, policy="other")
    names = {"a": "default", "b": "default", "c": "other"}
    calls = [
        then(MARCH, policy=policy, attribution=an_attribution(external_id=name, trajectory_id=march_id()))
        for name, policy in names.items()
    ]
    record(ledger, *calls)
    with ledger.begin():
        for pair in (("a", "b"), ("a", "c"), ("c", "never"), ("a", "never")):
            compare_in_march(ledger, *pair)
        policy_ids = dict(rows(ledger, _POLICIES))
        for policy, moment in (("default", MARCH), ("other", MARCH), ("default", NOW)):
            values = {"id": then(moment).call_id, "policy_id": policy_ids[policy], "moment": moment}
            for statement in _RUNS:
                ledger.execute(statement, values)
    run(engine, NOW)
    tables = ("comparisons", "judge_runs", "sibling_runs", "route_baselines")
    assert [count(ledger, table) for table in tables] == [3, 2, 2, 2]
    with ledger.begin():
        assert rows(ledger, "SELECT target FROM reward_events ORDER BY target") == [("c",), ("c",), ("never",), ("never",)]  # fmt: skip
    assert {(str(month)[:7], table, number) for month, table, *_, number in removed(ledger) if table in tables} == {
        ("2026-03", table, 1) for table in tables
    }  # fmt: skip
    keep(ledger, 30, policy="other")
    run(engine, NOW)
    assert [count(ledger, table) for table in tables] == [0, 1, 1, 1]  # this month's
    assert count(ledger, "reward_events") == 0
