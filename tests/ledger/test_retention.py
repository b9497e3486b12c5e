"""Retention: whole months go where they can, rows in batches where others keep theirs, and what is needed stays."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, text

from ledger import removal, upkeep
from ledger.database import sync_engine
from ledger.errors import LedgerError
from ledger.identifiers import choice_id, first_id_at, new_call_id
from ledger.partitions import ensure_partitions, month_start
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.retention import read_retentions, set_retention
from ledger.rewards import RewardPost, post_reward
from ledger.upkeep import Removed, apply_retention, plan_retention
from tests.ledger.calls import a_call, a_choice, an_attribution, conversation, everything, rows

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MARCH = datetime(2026, 3, 10, tzinfo=UTC)
APRIL = datetime(2026, 4, 10, tzinfo=UTC)


def run(engine: Engine, now: datetime, **values: Any) -> list[Removed]:
    with engine.connect() as connection:
        return apply_retention(connection, now, **values)[0]


def plan(engine: Engine) -> list[Removed]:
    with engine.connect() as connection:
        return plan_retention(connection, NOW)


def then(moment: datetime, **changes: Any) -> CallRecord:
    """A call whose ids say that it came then (at a random millisecond of that hour)."""
    call_id = UUID(int=new_call_id().int % (1 << 80) + (first_id_at(moment).int & ~((1 << 80) - 1)))
    attribution = an_attribution(trajectory_id=choice_id(call_id, 7))
    return a_call(call_id=call_id, **({"attribution": attribution} | changes))


@pytest.fixture
def ledger(connection: Connection) -> Connection:
    """Two projects, `default` and `acme`; `default` has another policy, `other`. Partitions from January 2026 on."""
    for name, project in (("default", "default"), ("other", "default"), ("default", "acme")):
        ensure_policy(connection, name=name, base_model="base", project=project)
    connection.commit()
    ensure_partitions(connection, NOW, also=[month_start(NOW, -offset) for offset in range(11)])
    return connection


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


def test_without_a_retention_everything_is_kept(ledger: Connection, engine: Engine) -> None:
    record(ledger, then(MARCH))
    before = everything(ledger)
    ledger.rollback()
    assert run(engine, NOW) == []
    assert everything(ledger) == before


def test_a_month_is_over_so_many_days_after_its_end(ledger: Connection, engine: Engine) -> None:
    """March ends with April 1st, 0:00. With 30 days it is over from May 1st, 0:00 on."""
    keep(ledger, 30)
    record(ledger, then(MARCH))
    run(engine, datetime(2026, 4, 30, 23, 59, tzinfo=UTC))
    assert count(ledger, "exchanges") == 1
    run(engine, datetime(2026, 5, 1, tzinfo=UTC))
    assert count(ledger, "exchanges") == 0


def test_a_policys_own_days_come_before_its_projects(ledger: Connection) -> None:
    keep(ledger, 30)
    keep(ledger, 90, policy="other")
    days = {(one.project, one.policy): one.days for one in read_retentions(ledger)}
    assert days == {("acme", "default"): None, ("default", "default"): 30, ("default", "other"): 90}
    for wrong in (("nobody", None, 3), ("default", "nobody", 3), ("default", None, 0)):
        with pytest.raises(LedgerError):
            set_retention(ledger, *wrong)


def test_a_month_that_nobody_keeps_is_dropped_and_counted(ledger: Connection, engine: Engine) -> None:
    """I10: what is gone on purpose can be told from what was lost."""
    keep(ledger, 30)
    record(ledger, then(MARCH), then(MARCH), then(APRIL, policy="other"))
    as_if_recorded_then(ledger)
    run(engine, NOW)
    for table in ("exchanges", "trajectories", "reward_events"):
        assert not has(ledger, f"{table}_2026_03")
        assert not has(ledger, f"{table}_2026_09")  # empty, and over
        assert has(ledger, f"{table}_2026_10")
    assert [(str(month), *rest) for month, *rest in removed(ledger)] == [
        ("2026-03-01", "exchanges", "default", "default", 2),
        ("2026-03-01", "groups", "default", "default", 1),
        ("2026-03-01", "trajectories", "default", "default", 2),
        ("2026-04-01", "exchanges", "default", "other", 1),
        ("2026-04-01", "groups", "default", "other", 1),
        ("2026-04-01", "trajectories", "default", "other", 1),
    ]
    assert run(engine, NOW) == []
    assert everything(ledger) == [[]] * 5


def test_where_others_keep_theirs_rows_go_in_bounded_batches(
    ledger: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "MAX_BATCH", 3)
    keep(ledger, 30)
    record(ledger, *[then(MARCH) for _ in range(10)], *[then(MARCH, project="acme") for _ in range(2)])
    as_if_recorded_then(ledger)
    gone = run(engine, NOW)
    assert [(one.table, one.num_rows, one.is_dropped) for one in gone if one.num_rows] == [
        ("exchanges", 10, False),
        ("trajectories", 10, False),
        ("groups", 1, False),
    ]
    assert count(ledger, "exchanges_2026_03") == count(ledger, "trajectories_2026_03") == 2
    assert [row[1:] for row in removed(ledger)] == [
        ("exchanges", "default", "default", 10),
        ("groups", "default", "default", 1),
        ("trajectories", "default", "default", 10),
    ]
    keep(ledger, 1, project="acme")
    run(engine, NOW)
    assert not has(ledger, "exchanges_2026_03")


def test_a_run_that_is_broken_off_leaves_every_turn_whole(
    ledger: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest first: a turn goes before the parent that it is a delta of. The next run goes on."""
    monkeypatch.setattr(removal, "MAX_BATCH", 2)
    turns = [replace(turn, call_id=choice_id(then(MARCH + timedelta(hours=k)).call_id, 0)) for k, turn in enumerate(conversation(7))]  # fmt: skip
    record(ledger, *turns, then(MARCH, project="acme"))
    keep(ledger, 30)
    run(engine, datetime(2026, 4, 1, tzinfo=UTC))  # the empty months before
    for left in (5, 3, 1):
        run(engine, NOW, seconds=0)
        assert (
            count(ledger, "exchanges WHERE project_id = (SELECT id FROM projects WHERE name = 'default')")
            == left
        )
        with ledger.begin():
            broken = "SELECT FROM exchanges AS e WHERE parent_exchange_id IS NOT NULL AND NOT EXISTS (SELECT FROM exchanges AS p WHERE p.id = e.parent_exchange_id)"
            assert rows(ledger, broken) == []
    run(engine, NOW)
    assert count(ledger, "exchanges") == 1


def test_a_conversation_that_goes_on_keeps_its_trajectory_name_and_rewards(
    ledger: Connection, engine: Engine
) -> None:
    """Begun in March, gone on with in October: what is left of it is whole."""
    keep(ledger, 60)
    first, second, *_ = conversation(2)
    first = replace(first, call_id=then(MARCH).call_id, attribution=an_attribution(external_id="talk", trajectory_id=then(MARCH).call_id))  # fmt: skip
    record(ledger, first, replace(second, call_id=then(datetime(2026, 10, 5, tzinfo=UTC)).call_id))
    with ledger.begin():
        post_reward(ledger, "default", RewardPost("talk", value=1.0))
    run(engine, NOW)
    assert not has(ledger, "exchanges_2026_03")
    with ledger.begin():
        assert rows(ledger, "SELECT external_id, num_exchanges, reward FROM v1.trajectories") == [
            ("talk", 1, 1.0)
        ]
        assert rows(ledger, "SELECT num_shared_tokens, cardinality(prompt_ids) FROM exchanges") == [(0, 24)]
    run(engine, datetime(2027, 1, 31, tzinfo=UTC))
    run(engine, datetime(2027, 2, 28, tzinfo=UTC))
    assert [count(ledger, table) for table in ("exchanges", "trajectories", "trajectory_names", "reward_events")] == [0] * 4  # fmt: skip


def test_a_turn_of_a_policy_that_keeps_its_rows_keeps_those_before_it(
    ledger: Connection, engine: Engine
) -> None:
    """The turn before it is what its delta points to."""
    keep(ledger, 30)
    keep(ledger, 10_000, policy="other")
    first, second = conversation(2)
    record(
        ledger,
        replace(first, call_id=then(MARCH).call_id),
        replace(second, call_id=then(MARCH + timedelta(days=1)).call_id, policy="other"),
    )
    run(engine, NOW)
    assert count(ledger, "exchanges") == 2


def test_what_a_step_learned_from_stays_in_lineage(ledger: Connection, engine: Engine) -> None:
    """The skeleton that the maths needs: reward, baseline, advantage, staleness, versions."""
    keep(ledger, 30)
    record(ledger, *[then(MARCH, attribution=an_attribution(trajectory_id=then(MARCH).call_id, group_key="g")) for _ in range(2)])  # fmt: skip
    train(ledger, "published")
    lineage = rows(ledger, "SELECT * FROM v1.lineage ORDER BY exchange_id")
    ledger.rollback()
    run(engine, NOW)
    assert count(ledger, "exchanges") == 0
    assert len(lineage) == 2
    assert rows(ledger, "SELECT * FROM v1.lineage ORDER BY exchange_id") == lineage
    assert rows(ledger, "SELECT state, num_members FROM v1.groups") == [("trained", 0)]


@pytest.mark.parametrize("state", ["claimed", "built", "updated", "saved"])
def test_samples_of_an_active_step_are_kept_until_it_ends(
    ledger: Connection, engine: Engine, state: str
) -> None:
    keep(ledger, 30)
    record(ledger, then(MARCH, attribution=an_attribution(trajectory_id=then(MARCH).call_id, group_key="g")))
    record(ledger, then(MARCH, policy="other"))
    train(ledger, state)
    run(engine, NOW)
    assert count(ledger, "exchanges") == 1  # the other policy's went
    with ledger.begin():
        ledger.execute(text("UPDATE training_steps SET state = 'failed'"))
    run(engine, NOW)
    assert count(ledger, "exchanges") == 0


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


def test_a_dry_run_says_what_would_go_and_changes_nothing(ledger: Connection, engine: Engine) -> None:
    keep(ledger, 30)
    record(ledger, then(MARCH), then(MARCH), then(APRIL), then(APRIL, project="acme"))
    before = everything(ledger)
    ledger.rollback()
    planned = [(f"{one.month:%Y-%m}", one.table, one.num_rows, one.is_dropped) for one in plan(engine)]
    assert planned == [
        ("2026-03", "exchanges", 2, True),
        ("2026-03", "trajectories", 2, True),
        ("2026-04", "exchanges", 1, False),
        ("2026-04", "trajectories", 1, False),
    ]
    assert everything(ledger) == before


def test_a_table_in_use_postpones_what_it_holds(
    ledger: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst's long query on the parent: nobody queues behind the drop for long."""
    monkeypatch.setattr(removal, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(upkeep, "_PAUSE_SECONDS", 0.01)
    keep(ledger, 30)
    record(ledger, then(MARCH))
    with engine.connect() as analyst:
        analyst.execute(text("SELECT count(*) FROM exchanges"))
        run(engine, NOW)
        assert has(ledger, "exchanges_2026_03")
    run(engine, NOW)
    assert not has(ledger, "exchanges_2026_03")


def test_a_late_replay_of_a_dropped_month_is_taken_and_goes_with_the_next_run(
    ledger: Connection, engine: Engine
) -> None:
    """A spool that nobody adopted for months: its rows are written, then retention is applied to them."""
    keep(ledger, 30)
    run(engine, NOW)
    record(
        ledger, then(MARCH, attribution=an_attribution(external_id="late", trajectory_id=then(MARCH).call_id))
    )
    assert count(ledger, "exchanges_default") == 1
    ensure_partitions(ledger, NOW)
    run(engine, NOW)
    assert [count(ledger, table) for table in ("exchanges", "trajectories", "trajectory_names")] == [0] * 3


def test_recording_goes_on_while_retention_runs(
    ledger: Connection, engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4: a turn that comes to a trajectory just when it goes is not lost, and neither side fails."""
    monkeypatch.setattr(removal, "MAX_BATCH", 5)
    keep(ledger, 30)
    names = [f"talk {k}" for k in range(40)]
    old = [then(MARCH, attribution=an_attribution(external_id=name, trajectory_id=then(MARCH).call_id)) for name in names]  # fmt: skip
    record(ledger, *old, then(MARCH, project="acme"))
    failures: list[Exception] = []

    def go_on() -> None:
        own = sync_engine(database_url, pool_size=1)
        try:
            for name in names:
                with own.begin() as connection:
                    record_calls(connection, [a_call(external_id=name, choices=[a_choice()])])
        except Exception as error:  # noqa: BLE001 - reported below
            failures.append(error)
        own.dispose()

    thread = threading.Thread(target=go_on)
    thread.start()
    run(engine, NOW)
    thread.join()
    run(engine, NOW)
    assert failures == []
    orphans = "SELECT FROM exchanges AS e WHERE NOT EXISTS (SELECT FROM trajectories AS t WHERE t.id = e.trajectory_id)"
    with ledger.begin():
        assert rows(ledger, orphans) == []
        found = rows(ledger, "SELECT num_exchanges FROM v1.trajectories WHERE external_id LIKE 'talk %'")
    assert found == [(1,)] * 40


def test_a_turn_that_is_on_its_way_keeps_its_trajectory(
    ledger: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4: recorded, not yet committed, so nobody else can see it. Retention waits for it, or comes again."""
    monkeypatch.setattr(removal, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(upkeep, "_PAUSE_SECONDS", 0.01)
    keep(ledger, 30)
    run(engine, datetime(2026, 4, 1, tzinfo=UTC))
    begun = then(MARCH, attribution=an_attribution(external_id="talk", trajectory_id=then(MARCH).call_id))
    record(ledger, begun, then(MARCH, project="acme"))
    with engine.begin() as recorder:
        record_calls(recorder, [a_call(external_id="talk")])
        run(engine, NOW)
    run(engine, NOW)
    with ledger.begin():
        assert rows(ledger, "SELECT num_exchanges FROM v1.trajectories WHERE external_id = 'talk'") == [(1,)]
        assert rows(ledger, "SELECT count(*) FROM trajectory_names") == [(1,)]
