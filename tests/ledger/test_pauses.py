"""Pauses: of one policy or of many, with the moment and the reason."""

import pytest
from sqlalchemy import Connection

from ledger.errors import LedgerError
from ledger.pauses import find_learners, pause, paused_learners, resume
from ledger.policies import ensure_policy


@pytest.fixture(autouse=True)
def _policies(connection: Connection) -> None:
    for project, name in (("default", "a"), ("default", "b"), ("acme", "a")):
        ensure_policy(connection, name=name, base_model="base", project=project)


def ids(connection: Connection, **names: str) -> list:  # type: ignore[type-arg]
    return [learner.id for learner in find_learners(connection, **names)]


def test_a_pause_is_of_those_that_were_named(connection: Connection) -> None:
    pause(connection, ids(connection, project="default", policy="a"), "The rewards look odd.")
    [paused] = paused_learners(connection)
    assert (paused.project, paused.policy, paused.paused_reason) == ("default", "a", "The rewards look odd.")
    assert paused_learners(connection, "acme") == []
    assert len(ids(connection)) == 3
    assert len(ids(connection, policy="a")) == 2


def test_pausing_again_keeps_the_moment_and_changes_the_reason(connection: Connection) -> None:
    pause(connection, ids(connection), "first")
    before = paused_learners(connection)
    pause(connection, ids(connection), None)
    assert [one.paused_at for one in paused_learners(connection)] == [one.paused_at for one in before]
    assert {one.paused_reason for one in paused_learners(connection)} == {None}


def test_a_resumption_says_how_many_were_paused(connection: Connection) -> None:
    pause(connection, ids(connection, project="default"), "once")
    assert resume(connection, ids(connection)) == 2
    assert resume(connection, ids(connection)) == 0
    assert paused_learners(connection) == []
    assert {one.paused_reason for one in find_learners(connection)} == {None}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"policy": "x"}, "no policy 'x':"),
        ({"project": "x"}, "no policy in project 'x'"),
        ({"project": "acme", "policy": "b"}, "no policy 'b' in project 'acme'"),
    ],
)
def test_what_is_not_there_is_named(connection: Connection, names: dict[str, str], said: str) -> None:
    with pytest.raises(LedgerError, match=said):
        find_learners(connection, **names)


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", "a\x00", "x" * 501])
def test_a_reason_is_one_line(connection: Connection, reason: str) -> None:
    with pytest.raises(LedgerError, match="one line"):
        pause(connection, ids(connection), reason)
    assert paused_learners(connection) == []
