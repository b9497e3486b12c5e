"""`slipstream doctor` says what the newest step of each policy waits for."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from ledger.identifiers import new_id
from ledger.policies import ensure_policy
from slipstream.doctor.finding import Finding, Level
from slipstream.doctor.steps import check_steps
from slipstream.local.home import Home
from slipstream.running import Running

INSERT = text(
    "INSERT INTO training_steps (id, policy_id, version, parent_version, state, reason, lease_expires_at, seed, settings)"
    " VALUES (:id, :policy_id, :version, 0, :state, :reason, now() - make_interval(secs => :ago), 1, '{}')"
)


def running_at(url: str) -> Running:
    return Running(Home.at(Path("nowhere")), {"DATABASE_URL": url}, "http://127.0.0.1:1", is_stack=False)


def found(engine: Engine, running: Running, state: str, reason: str | None = None, ago: float = 0) -> Finding:
    with engine.begin() as connection:
        policy = ensure_policy(connection, name="default", base_model="m")
        values = {"state": state, "reason": reason, "ago": ago, "version": 1}
        connection.execute(INSERT, {"id": new_id(), "policy_id": policy.id, **values})
    (finding,) = check_steps(running)
    return finding


@pytest.mark.parametrize(
    ("state", "reason", "ago", "level", "word"),
    [
        ("published", None, 0, Level.GOOD, "attempt 1"),
        ("built", None, -60, Level.GOOD, "built"),
        ("saved", "a replica is away", 1, Level.NOTE, "waits: a replica is away"),
        ("failed", "token 100", 0, Level.NOTE, "token 100"),
        ("skipped", "rewards must differ", 0, Level.NOTE, "rewards must differ"),
        ("claimed", None, 3_600, Level.WRONG, "nobody goes on"),
    ],
)
def test_the_newest_step_says_what_it_waits_for(
    engine: Engine, database_url: str, *, state: str, reason: str | None, ago: float, level: Level, word: str
) -> None:
    finding = found(engine, running_at(database_url), state, reason, ago)
    assert finding.level is level
    assert word in finding.detail


def test_without_a_step_or_a_database_there_is_nothing_to_say(database_url: str) -> None:
    assert check_steps(running_at(database_url)) == []
    assert check_steps(running_at("postgresql://nobody@127.0.0.1:1/none")) == []
