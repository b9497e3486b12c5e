"""The verdicts of schema v1 over months of traffic: none is missing, and a plain loop comes to the same."""

from collections import Counter, defaultdict
from datetime import UTC
from typing import Any

from sqlalchemy import Connection, create_engine, text

from ledger.database import database_address
from ledger.recording import record_calls
from ledger.vocabulary import ACTIVE_STEP_STATES, Reason, Verdict, WaitsFor
from tests.ledger.calls import a_policy, sent
from tests.ledger.conftest import LoadedWorld

EXCHANGES = text("""
    SELECT e.id, p.name AS project, policy.name AS policy, e.started_at, e.trajectory_id, e.is_trainable,
        e.untrainable_reason, e.num_completion_tokens, g.state, g.reason
    FROM exchanges AS e JOIN projects AS p ON p.id = e.project_id JOIN policies AS policy ON policy.id = e.policy_id
    LEFT JOIN trajectories AS t ON t.id = e.trajectory_id LEFT JOIN groups AS g ON g.id = t.group_id
""")
SAMPLES = text("""
    SELECT x.exchange_id, x.is_used, x.reason, s.state FROM step_samples AS x
    JOIN training_steps AS s ON s.id = x.step_id ORDER BY x.step_id
""")
EVENTS = text("SELECT trajectory_id, exchange_id, is_final FROM v1.rewards WHERE is_counted")
COUNTED = text(
    "SELECT project, policy, day, verdict, reason, num_exchanges, num_completion_tokens FROM v1.verdicts"
)
WITHOUT = text("""
    SELECT count(*) FROM v1.exchanges
    WHERE verdict IS NULL OR (verdict = 'trained') <> (verdict_reason IS NULL)
""")


def plainly(row: Any, samples: list[Any], finals: list[bool]) -> tuple[str, str | None]:
    """The rule of docs/decisions/0019, point 3, as a loop would have it."""
    states = {sample.state for sample in samples if sample.is_used}
    if "published" in states:
        return Verdict.TRAINED, None
    if not row.is_trainable:
        return Verdict.LEFT_OUT, row.untrainable_reason
    if row.state == "claimed" or states & set(ACTIVE_STEP_STATES):
        return Verdict.WAITING, WaitsFor.CLAIMED
    if row.state in {"trained", "skipped"}:
        newest = samples[-1].reason if samples else None
        return Verdict.LEFT_OUT, newest or row.reason or Reason.GROUP_ALREADY_TRAINED
    if not finals:
        return Verdict.WAITING, WaitsFor.UNSCORED
    return Verdict.WAITING, WaitsFor.GROUP_OPEN if any(finals) else WaitsFor.PARTIAL


def test_no_exchange_is_without_a_verdict_and_the_counts_are_those_of_a_plain_loop(
    world: LoadedWorld,
) -> None:
    engine = create_engine(database_address(world.url))
    with engine.connect() as connection:
        assert connection.scalar(WITHOUT) == 0
        samples, events = defaultdict(list), defaultdict(list)
        for sample in connection.execute(SAMPLES):
            samples[sample.exchange_id].append(sample)
        for event in connection.execute(EVENTS):
            events[event.trajectory_id].append(event)
        expected: Counter[tuple[Any, ...]] = Counter()
        tokens: Counter[tuple[Any, ...]] = Counter()
        for row in connection.execute(EXCHANGES):
            finals = [e.is_final for e in events[row.trajectory_id] if e.exchange_id in (None, row.id)]
            word = plainly(row, samples[row.id], finals)
            key = (row.project, row.policy, row.started_at.astimezone(UTC).date(), *word)
            expected[key] += 1
            tokens[key] += row.num_completion_tokens or 0
        found = {tuple(row[:5]): tuple(row[5:]) for row in connection.execute(COUNTED)}
    engine.dispose()
    assert found == {key: (number, tokens[key]) for key, number in expected.items()}
    assert {key[3] for key in found} == set(Verdict)


def test_a_retry_says_that_its_call_has_another_sample(connection: Connection) -> None:
    a_policy(connection)
    first, second = sent(), sent(1, 1)
    record_calls(connection, [first])
    record_calls(connection, [second])
    verdicts = text("SELECT verdict, verdict_reason FROM v1.exchanges ORDER BY id")
    assert connection.execute(verdicts).all() == [("left_out", "duplicate_retry"), ("waiting", "unscored")]


def test_what_nobody_asks_for_is_not_computed(connection: Connection) -> None:
    for columns, is_computed in (("id, status", False), ("verdict", True)):
        for view in ("exchanges", "trajectories"):
            if view == "trajectories":
                columns = columns.replace("status", "policy")  # noqa: PLW2901 - the same question of the other view
            plan = "\n".join(connection.execute(text(f"EXPLAIN SELECT {columns} FROM v1.{view}")).scalars())
            assert ("step_samples" in plan) is is_computed
