"""Retention: whole months go where they can, rows in batches where others keep theirs, and what is needed stays."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, Engine, text

from ledger import removal, upkeep
from ledger.errors import LedgerError
from ledger.identifiers import choice_id
from ledger.retention import read_retentions, set_retention
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.upkeep import plan_retention
from tests.ledger.calls import an_attribution, conversation, everything, rows
from tests.ledger.retained import (
    APRIL,
    MARCH,
    NOW,
    as_if_recorded_then,
    count,
    has,
    keep,
    plan,
    record,
    removed,
    run,
    then,
    train,
)  # fmt: skip


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


def test_more_days_than_a_calendar_has_are_for_ever(ledger: Connection, engine: Engine) -> None:
    """SQL may say so; the others' months go all the same."""
    keep(ledger, 9_999_999)
    record(ledger, then(MARCH))
    assert run(engine, NOW) == []
    assert count(ledger, "exchanges") == 1


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


def test_samples_of_an_active_step_without_groups_are_kept_until_it_ends(
    ledger: Connection, engine: Engine
) -> None:
    """Of sft and dpo: what they froze is named by their samples alone."""
    keep(ledger, 30)
    record(ledger, then(MARCH, attribution=an_attribution(trajectory_id=then(MARCH).call_id, group_key="g")))
    train(ledger, "built")
    with ledger.begin():
        ledger.execute(text("UPDATE groups SET state = 'open', step_id = NULL"))
    run(engine, NOW)
    assert count(ledger, "exchanges") == 1
    with ledger.begin():
        ledger.execute(text("UPDATE training_steps SET state = 'failed'"))
    run(engine, NOW)
    assert count(ledger, "exchanges") == 0


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


def test_a_dry_run_counts_rows_that_wait_in_default(
    ledger: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import of years ago: a run gives it its month, and drops that."""
    keep(ledger, 30)
    old = datetime(2020, 2, 29, tzinfo=UTC)
    record(ledger, then(old), then(old), then(old, project="acme"))
    planned = [(f"{one.month:%Y-%m}", one.table, one.num_rows, one.is_dropped) for one in plan(engine)]
    assert planned == [("2020-02", "exchanges", 2, False), ("2020-02", "trajectories", 2, False)]
    monkeypatch.setattr(upkeep, "is_too_many", lambda *_: True)
    with engine.connect() as connection:
        planned, postponed = plan_retention(connection, NOW)
    assert planned == []
    assert {one.reason for one in postponed} == {"2 rows wait for `slipstream migrate`"}
