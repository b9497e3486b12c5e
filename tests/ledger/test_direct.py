"""Statements that go to Postgres together are answered one by one, and fail as SQLAlchemy's do."""

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DataError, OperationalError

from ledger.changes import state_of
from ledger.database import connect_options, database_address
from ledger.direct import direct
from ledger.keys import create_key
from ledger.policies import ensure_policy
from ledger.recording_session import RecordingSession
from ledger.vocabulary import Scope
from tests.ledger.calls import a_call, a_policy

ECHO = text("SELECT CAST(:value AS integer) AS value")
NUM = text("SELECT count(*) FROM exchanges")


def test_each_question_gets_its_own_answer(connection: Connection) -> None:
    answers = direct(connection).ask(*[(ECHO, {"value": n}) for n in range(300)])
    assert [answer.scalar() for answer in answers] == list(range(300))
    assert direct(connection).ask() == []


def test_what_goes_later_goes_before_the_next(connection: Connection) -> None:
    asked = direct(connection)
    asked.later(text("CREATE TEMPORARY TABLE t (x int)"))
    asked.later(text("INSERT INTO t VALUES (CAST(:x AS integer))"), {"x": 7})
    assert asked.scalar(text("SELECT x FROM t")) == 7


def test_the_first_failure_is_told_and_the_connection_stays_of_use(connection: Connection) -> None:
    with pytest.raises(DataError, match="invalid input syntax"):
        direct(connection).ask((ECHO, {"value": 1}), (ECHO, {"value": "one"}), (ECHO, {"value": "two"}))
    connection.rollback()
    assert direct(connection).scalar(ECHO, {"value": 2}) == 2


def test_answers_larger_than_any_buffer_arrive_while_questions_are_still_sent(connection: Connection) -> None:
    long = text("SELECT repeat(CAST(:value AS text), 20)")
    answers = direct(connection).ask(*[(long, {"value": "x" * 200_000})] * 10)
    assert [len(answer.scalar()) for answer in answers] == [4_000_000] * 10


def test_a_session_whose_connection_was_cut_says_so_and_goes_on_with_a_new_one(engine: Engine) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    session = RecordingSession(engine)
    session.record([a_call()])
    with engine.begin() as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        connection.execute(text(f"{others} AND pid <> pg_backend_pid()"))
    with pytest.raises(OperationalError):
        session.record([a_call()])
    session.record([a_call()])
    session.rest()
    with engine.begin() as connection:
        assert connection.scalar(NUM) == 2


def test_a_policy_that_is_registered_meanwhile_is_known_at_once(engine: Engine) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    session = RecordingSession(engine)
    session.record([a_call()])
    with engine.begin() as connection:
        ensure_policy(connection, name="other", base_model="base")
    session.record([a_call(policy="other")])
    session.rest()
    with engine.begin() as connection:
        assert connection.scalar(NUM) == 2


async def test_the_state_changes_with_policies_and_keys_alone(engine: Engine, database_url: str) -> None:
    address = database_address(database_url).set(drivername="postgresql")
    async with await psycopg.AsyncConnection.connect(
        address.render_as_string(hide_password=False), autocommit=True, **connect_options()
    ) as connection:
        states = [await state_of(connection)]
        with engine.begin() as ours:
            ensure_policy(ours, name="other", base_model="base")
        states += [await state_of(connection), await state_of(connection)]
        with engine.begin() as ours:
            create_key(ours, [Scope.INFER])
        states.append(await state_of(connection))
    assert states[0] != states[1] == states[2] != states[3]
