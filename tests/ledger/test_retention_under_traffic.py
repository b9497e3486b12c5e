"""Retention beside everything else that goes on: queries, replays, and calls that come just then."""

import threading
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, Engine, text

from ledger import removal, upkeep
from ledger.database import sync_engine
from ledger.partitions import ensure_partitions
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_choice, an_attribution, rows
from tests.ledger.retained import (
    MARCH,
    NOW,
    count,
    has,
    keep,
    record,
    run,
    then,
)  # fmt: skip


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


@pytest.mark.parametrize(
    "moment", [MARCH, datetime(2019, 5, 5, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)]
)
def test_i4_a_replay_meets_its_first_copy_whatever_partitions_were_made_between(
    ledger: Connection, moment: datetime
) -> None:
    """I4: two proxies, or one and the adopter of its spool, write the same record; its month is in its own id."""
    call = then(moment, attribution=an_attribution(external_id="again", trajectory_id=then(moment).call_id))
    record(ledger, call)
    ensure_partitions(ledger, NOW)
    record(ledger, call)
    ensure_partitions(ledger, datetime(2100, 1, 15, tzinfo=UTC))
    record(ledger, call)
    assert [count(ledger, table) for table in ("exchanges", "trajectories", "trajectory_names")] == [1] * 3
    assert count(ledger, "exchanges_default") == 0
