"""v1.step_metrics has a typed, explained column for each figure of the list, and tells what a step wrote."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, text

from ledger.figures import BREAKDOWNS, BY_NAME, FIGURES
from ledger.policies import ensure_policy
from ledger.step_metrics import (
    BEGINNING,
    finished_steps,
    last_steps,
    published_steps,
    running_steps,
    seen_workers,
)
from ledger.workers import worker_started
from tests.ledger.calls import a_policy
from tests.ledger.steps import add_step

COLUMNS = text("""
    SELECT a.attname, format_type(a.atttypid, NULL) AS type, col_description(a.attrelid, a.attnum) AS comment
    FROM pg_attribute AS a WHERE a.attrelid = 'v1.step_metrics'::regclass AND a.attnum > 0
""")


def test_the_view_has_a_typed_column_for_each_figure_with_its_meaning(connection: Connection) -> None:
    columns = {row.attname: row for row in connection.execute(COLUMNS)}
    for figure in FIGURES:
        column = columns[figure.name]
        assert column.type == ("bigint" if figure.is_whole else "double precision")
        assert column.comment == figure.meaning
    besides = {
        "step_id", "project", "policy", "version", "parent_version", "kind", "state", "reason", "attempt", "created_at",
        "finished_at", "seconds_total", "seconds_waiting", "tokens_dropped", "grad_clip",
    }  # fmt: skip
    assert columns.keys() == BY_NAME.keys() | besides
    assert not BY_NAME.keys() & BREAKDOWNS.keys()


def test_what_a_step_wrote_is_read_back_as_numbers(connection: Connection) -> None:
    """Of 60 seconds, 1 + 2 + 30 + 4 + 5 were worked; the claim came before created_at."""
    metrics = {figure.name: 3 if figure.is_whole else 0.5 for figure in FIGURES}
    seconds = {"claim": 9, "build": 1, "load": 2, "update": 30, "save": 4, "publish": 5}
    metrics |= {f"seconds_{phase}": number for phase, number in seconds.items()}
    dropped = {"tokens_dropped": {"unscored": 5, "too_long": 7}}
    add_step(connection, a_policy(connection), 1, metrics=metrics | dropped, settings={"grad_clip": 1.0})
    (row,) = last_steps(connection, None, None, 9)
    assert {name: row[name] for name in metrics} == metrics
    assert (row["seconds_total"], row["seconds_waiting"], row["grad_clip"]) == (60.0, 18.0, 1.0)
    assert (row["tokens_dropped"], row["drops"]) == (12, {"unscored": 5, "too_long": 7})
    drops = connection.execute(text("SELECT reason, num_tokens, state FROM v1.step_drops ORDER BY reason"))
    assert list(drops) == [("too_long", 7, "published"), ("unscored", 5, "published")]


def test_a_figure_that_a_step_has_not_is_null_and_a_running_step_has_no_total(connection: Connection) -> None:
    policy = a_policy(connection)
    add_step(connection, policy, 1, "claimed", metrics={"ratio_max": None}, finished_at=None)
    (row,) = last_steps(connection, None, None, 9)
    assert all(row[figure.name] is None for figure in FIGURES)
    assert (row["seconds_total"], row["seconds_waiting"], row["tokens_dropped"]) == (None, None, 0)


def test_finished_steps_come_in_the_order_of_their_end_from_a_moment_on(connection: Connection) -> None:
    policy = a_policy(connection)
    add_step(connection, policy, 2)
    add_step(connection, policy, 1, "skipped")
    add_step(connection, policy, 3, "failed")
    add_step(connection, policy, 4, "saved", finished_at=None)
    found = finished_steps(connection, BEGINNING, 9)
    assert [(row["version"], row["state"]) for row in found] == [
        (1, "skipped"),
        (2, "published"),
        (3, "failed"),
    ]
    assert finished_steps(connection, found[1]["finished_at"], 1) == found[1:2]
    assert finished_steps(connection, found[1]["finished_at"], 9, found[1]["step_id"]) == found[2:]


def test_published_steps_are_those_of_one_policy_above_a_version(connection: Connection) -> None:
    policy, other = a_policy(connection), ensure_policy(connection, name="other", base_model="base")
    for version in (1, 2, 3):
        add_step(connection, policy, version)
    add_step(connection, policy, 4, "failed")
    add_step(connection, other, 5)
    assert [row["version"] for row in published_steps(connection, policy.id, 1, 9)] == [2, 3]
    assert [row["version"] for row in published_steps(connection, policy.id, 0, 1)] == [1]


def test_the_last_steps_are_counted_for_each_policy_and_may_be_of_one(connection: Connection) -> None:
    for name in ("default", "other"):
        policy = ensure_policy(connection, name=name, base_model="base")
        for version in (1, 2, 3):
            add_step(connection, policy, version)
    found = [(row["policy"], row["version"]) for row in last_steps(connection, None, None, 2)]
    assert found == [("default", 2), ("default", 3), ("other", 2), ("other", 3)]
    assert [row["policy"] for row in last_steps(connection, "default", "other", 1)] == ["other"]
    assert last_steps(connection, "acme", "other", 1) == []


def test_a_step_that_runs_and_a_worker_that_is_seen_tell_their_age(connection: Connection) -> None:
    policy = a_policy(connection)
    ago = datetime.now(UTC) - timedelta(hours=1)
    add_step(connection, policy, 1, "built", finished_at=None, updated_at=ago)
    (running,) = running_steps(connection)
    assert running["state"] == "built"
    assert running["seconds"] == pytest.approx(3600, abs=60)
    worker_started(connection, policy="default", base_model="m", owner="o", settings={})
    (worker,) = seen_workers(connection)
    assert (worker["policy"], worker["base_model"]) == ("default", "m")
    assert 0 <= worker["seconds"] < 60
