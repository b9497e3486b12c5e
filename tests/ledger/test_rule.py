"""What counts and what it makes together: the views against plain loops, on events drawn at random."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from ledger.identifiers import new_id
from ledger.recording import record_calls
from ledger.rewards.reading import exchange_rewards, trajectory_rewards
from tests.ledger.calls import a_call, a_policy
from tests.ledger.plain_rule import REWARD_MAX, REWARD_MIN, Declared, Said, combined, reasons

INSERT = text("""
    INSERT INTO reward_events (id, project_id, target, trajectory_id, exchange_id, metric, value, source, is_retraction,
        is_final, comparison_id, observed_at)
    SELECT id, :project_id, 'x', :trajectory_id, exchange_id, metric, value, source, is_retraction, is_final,
        comparison_id, now()
    FROM jsonb_to_recordset(CAST(:events AS jsonb)) AS e (id uuid, exchange_id uuid, metric text, value float8, source text,
        is_retraction boolean, is_final boolean, comparison_id uuid)
""")
DECLARE = text("""
    INSERT INTO metrics (policy_id, name, smallest, largest, direction, weight)
    VALUES (:policy_id, :name, :smallest, :largest, :direction, :weight)
""")
values = st.one_of(
    st.floats(-1.5, 2.5, allow_nan=False), st.sampled_from([-1.0, 0.0, 0.1, 1.0, 2.0, 5e-324, 1e-300])
)
numbers = st.floats(0, 10, allow_nan=False)


@st.composite
def histories(draw: st.DrawFn) -> list[Said]:
    return [
        Said(
            number=number,
            exchange=draw(st.sampled_from([None, None, 0, 1])),
            metric=draw(
                st.sampled_from(["reward", "reward", "stars", "latency", "comparison", "comment", "other"])
            ),
            source=draw(st.sampled_from(["user", "program", "judge"])),
            value=draw(st.one_of(st.none(), values, numbers)),
            is_retraction=draw(st.sampled_from([False] * 5 + [True])),
            is_final=draw(st.booleans()),
            comparison=draw(st.sampled_from([None, None, 0, 1])),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


@st.composite
def declarations(draw: st.DrawFn) -> dict[str, Declared]:
    found = {}
    for name, (low, high) in {"stars": (1.0, 5.0), "latency": (0.0, 8.5), "reward": (0.0, 1.0)}.items():
        if draw(st.booleans()):
            direction = draw(st.sampled_from(["higher", "lower"]))
            found[name] = Declared(low, high, direction, draw(st.sampled_from([0.0, 0.1, 1.0, 3.0, 1e6])))
    return found


class World:
    """A trajectory of two exchanges, whose events are written and rolled back again and again."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.policy = a_policy(connection)
        first = a_call()
        second = a_call(attribution=first.attribution)
        record_calls(connection, [first, second])
        self.trajectory_id = first.attribution.trajectory_id
        self.exchange_ids = [first.call_id, second.call_id]
        bounds = text("UPDATE policies SET reward_min = :low, reward_max = :high")
        connection.execute(bounds, {"low": REWARD_MIN, "high": REWARD_MAX})
        connection.commit()

    def write(self, events: list[Said], declared: dict[str, Declared], combination: str) -> dict[UUID, Said]:
        ids: dict[UUID, Said] = {}
        for event in events:
            ids[new_id()] = event
        ids = dict(zip(sorted(ids), events, strict=True))
        comparisons = [new_id(), new_id()]
        rows = [
            {
                "id": str(id_), "metric": event.metric, "value": event.value, "source": event.source,
                "exchange_id": None if event.exchange is None else str(self.exchange_ids[event.exchange]),
                "is_retraction": event.is_retraction, "is_final": event.is_final,
                "comparison_id": None if event.comparison is None else str(comparisons[event.comparison]),
            }
            for id_, event in ids.items()
        ]  # fmt: skip
        asked = {"project_id": self.policy.project_id, "trajectory_id": self.trajectory_id}
        self.connection.execute(INSERT, asked | {"events": json.dumps(rows)})
        for name, rule in declared.items():
            of_rule = {one: getattr(rule, one) for one in ("smallest", "largest", "direction", "weight")}
            self.connection.execute(DECLARE, {"policy_id": self.policy.id, "name": name} | of_rule)
        self.connection.execute(text("UPDATE policies SET combination = :rule"), {"rule": combination})
        return ids

    def rows(self, query: str) -> list[Any]:
        return list(self.connection.execute(text(query)).all())


@pytest.fixture
def judged(connection: Connection) -> Iterator[World]:
    yield World(connection)
    connection.rollback()


def alike(found: float | None, expected: float | None) -> bool:
    if found is None or expected is None:
        return found is expected
    return found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(), declarations(), st.sampled_from(["mean", "sum", "min", "last"]))
def test_the_views_say_what_a_plain_loop_says(
    judged: World, events: list[Said], declared: dict[str, Declared], combination: str
) -> None:
    ids = judged.write(events, declared, combination)
    try:
        why = reasons(events, declared)
        found = {row.id: row for row in judged.rows("SELECT * FROM v1.rewards")}
        assert {ids[id_].number: row.not_counted_reason for id_, row in found.items()} == why
        assert all(row.is_counted == (row.not_counted_reason is None) for row in found.values())
        counted = [event for event in events if why[event.number] is None]
        whole = [event for event in counted if event.exchange is None]
        rewards = trajectory_rewards(judged.connection, [judged.trajectory_id])
        assert alike(rewards.get(judged.trajectory_id), combined(counted, declared, combination))
        of_exchanges = exchange_rewards(judged.connection, [judged.trajectory_id])
        for number, id_ in enumerate(judged.exchange_ids):
            own = [event for event in counted if event.exchange == number]
            known = of_exchanges.get(id_)
            assert alike(known and known.reward, combined(own or whole, declared, combination))
            if known:
                assert known.is_own == bool(own)
                assert {ids[event_id] for event_id in known.event_ids} == set(own or whole)
        for row in judged.rows("SELECT * FROM v1.trajectory_rewards"):
            assert [ids[id_] for id_ in row.event_ids] == counted
            assert (row.num_rewards, row.is_final) == (len(counted), any(one.is_final for one in counted))
    finally:
        judged.connection.rollback()


@pytest.mark.parametrize("combination", ["mean", "min", "last"])
def test_judgements_that_are_alike_make_just_themselves(judged: World, combination: str) -> None:
    """To the last bit: (0.1 + 0.1 + 0.1) / 3 is not 0.1 in floats, and a baseline of equal rewards must be equal."""
    for value in (0.1, 1 / 3):  # the second has more digits than `numeric` takes of a float
        judged.write([Said(n, None, "reward", f"s{n}", value) for n in range(3)], {}, combination)
        assert trajectory_rewards(judged.connection, [judged.trajectory_id]) == {judged.trajectory_id: value}
        judged.connection.rollback()


def test_the_order_of_judgements_makes_no_difference_to_the_last_bit(judged: World) -> None:
    numbers = [0.1, 0.2, 0.3, 0.7, -0.4]
    found = set()
    for order in (numbers, numbers[::-1], sorted(numbers)):
        judged.write([Said(n, None, "reward", f"s{n}", value) for n, value in enumerate(order)], {}, "mean")
        found.add(trajectory_rewards(judged.connection, [judged.trajectory_id])[judged.trajectory_id])
        judged.connection.rollback()
    assert len(found) == 1


def test_a_score_at_the_ends_of_a_range_is_the_end_of_the_rewards(judged: World) -> None:
    declared = {"stars": Declared(1, 5, "higher", 1), "latency": Declared(0, 8.5, "lower", 1)}
    ends = [("stars", 1.0), ("stars", 5.0), ("latency", 0.0), ("latency", 8.5)]
    judged.write(
        [Said(n, None, metric, f"s{n}", value) for n, (metric, value) in enumerate(ends)], declared, "mean"
    )
    scores = [row.score for row in judged.rows("SELECT score FROM v1.rewards ORDER BY id")]
    assert scores == [REWARD_MIN, REWARD_MAX, REWARD_MAX, REWARD_MIN]
