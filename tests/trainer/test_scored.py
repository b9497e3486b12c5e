"""A tick looks at what was judged since the last one, and at everything once in a while: neither misses a group."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from ledger.vocabulary import StepState
from tests.trainer.traffic import add_group, begin_policy, one, rows
from trainer import scored
from trainer.scored import ScoredGroups
from trainer.step import tick


def groups_of(connection: Connection, states: str = "('open')") -> list[UUID]:
    return list(connection.scalars(text(f"SELECT id FROM groups WHERE state IN {states} ORDER BY id")))


def test_the_first_look_finds_what_is_open_and_judged(engine: Engine) -> None:
    policy = begin_policy(engine, "base")
    add_group(engine, 1, [1.0, 0.0])
    add_group(engine, 2, [None, None])
    with engine.begin() as connection:
        judged, _ = groups_of(connection)
        assert ScoredGroups().among(connection, policy.id) == [judged]
        connection.execute(text("UPDATE groups SET state = 'trained'"))
        assert ScoredGroups().among(connection, policy.id) == []


def test_the_next_look_adds_what_was_judged_since(engine: Engine, monkeypatch) -> None:
    monkeypatch.setattr(scored, "_ALL", text("SELECT id FROM groups WHERE false AND policy_id = :policy_id"))
    policy = begin_policy(engine, "base")
    known = ScoredGroups()
    with engine.begin() as connection:
        assert known.among(connection, policy.id) == []
    add_group(engine, 1, [1.0, 0.0])
    with engine.begin() as connection:
        assert known.among(connection, policy.id) == groups_of(connection)
        connection.execute(text("DELETE FROM reward_events"))
        assert known.among(connection, policy.id) == groups_of(connection)  # it waits, and is not forgotten


def test_what_a_look_missed_the_next_look_at_everything_finds(engine: Engine, monkeypatch) -> None:
    """Such as posts of a proxy whose clock is behind."""
    monkeypatch.setattr(scored, "OVERLAP", timedelta(seconds=-3600))
    policy = begin_policy(engine, "base")
    known = ScoredGroups()
    with engine.begin() as connection:
        known.among(connection, policy.id)
    add_group(engine, 1, [1.0, 0.0])
    with engine.begin() as connection:
        assert known.among(connection, policy.id) == []
        monkeypatch.setattr(scored, "ALL_SECONDS", -1.0)
        assert known.among(connection, policy.id) == groups_of(connection)


def test_a_group_that_waits_for_others_is_claimed_later(engine, make_trainer, monkeypatch) -> None:
    """Judged in one tick, claimed in a later one, without another look at everything."""
    trainer = make_trainer(step_groups=2)
    assert tick(trainer) is None
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer) is None
    monkeypatch.setattr(scored, "OVERLAP", timedelta(seconds=0))
    add_group(engine, 2, [1.0, 0.0])
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, "SELECT state, count(*) FROM groups GROUP BY 1") == [("trained", 2)]
    assert one(engine, "SELECT count(*) FROM training_steps") == 1
