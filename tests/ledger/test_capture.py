"""Reports of a process' calls: in the transaction of their rows, and any number of times (ADR 0010)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from ledger.audit.call_numbers import Spooled, hour_of
from ledger.audit.capture import Report
from ledger.recording_session import RecordingSession
from ledger.vocabulary import ExchangeStatus
from tests.ledger.calls import a_call, a_policy, later

HOURS = text("""
    SELECT process, num_accepted, CAST(committed AS text), CAST(interrupted AS text), CAST(rejected AS text), uncaptured
    FROM capture_hours ORDER BY process, hour
""")


def hours(engine: Engine) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(HOURS)]


def a_report(*spooled: Spooled, process: str = "1-a") -> Report:
    return Report(process, Path("/spool")).commit(spooled)


@pytest.fixture
def session(engine: Engine) -> Iterator[RecordingSession]:
    with engine.begin() as connection:
        a_policy(connection)
    session = RecordingSession(engine)
    yield session
    session.rest()


def test_numbers_are_committed_with_the_rows_and_a_replay_counts_once(
    session: RecordingSession, engine: Engine
) -> None:
    """I4: numbers 1 and 3, then 2 as another process finds it; then all of it again."""
    calls = [Spooled(a_call(call_id=later(k)), k) for k in (1, 3, 2)]
    for spooled in (calls[:2], calls[2:], calls):
        session.record([record for record, _ in spooled], a_report(*spooled).question())
    assert hours(engine) == [("1-a", 3, "{[1,4)}", "{}", "{}", {})]


def test_an_interrupted_call_is_committed_and_marked(session: RecordingSession, engine: Engine) -> None:
    spooled = Spooled(a_call(status=ExchangeStatus.INTERRUPTED), 4)
    session.record([spooled.record], a_report(spooled).question())
    assert hours(engine) == [("1-a", 4, "{[4,5)}", "{[4,5)}", "{}", {})]


def test_where_the_rows_are_refused_nothing_is_reported(session: RecordingSession, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE exchanges ADD CHECK (seed IS DISTINCT FROM 5)"))
    refused = Spooled(a_call(seed=5), 1)
    with pytest.raises(DBAPIError):
        session.record([refused.record], a_report(refused).question())
    assert hours(engine) == []


def test_a_rejected_call_is_no_longer_one_once_it_is_committed(
    session: RecordingSession, engine: Engine
) -> None:
    spooled = Spooled(a_call(), 2)
    session.record([], Report("1-a", Path()).reject(spooled).question())
    assert hours(engine) == [("1-a", 2, "{}", "{}", "{[2,3)}", {})]
    session.record([spooled.record], a_report(spooled).question())
    session.record([], Report("1-a", Path()).reject(spooled).question())  # a slower process says so again
    assert hours(engine) == [("1-a", 2, "{[2,3)}", "{}", "{}", {})]


def test_counts_of_uncaptured_calls_are_absolute_and_by_reason(
    session: RecordingSession, engine: Engine
) -> None:
    hour = hour_of(later(0))
    for counts in ({"asked": 2}, {"asked": 2, "spool": 1}, {"spool": 5}):
        report = Report("1-a", Path()).accept({hour: 7}).leave_uncaptured({hour: counts})
        session.record([], report.question())
    assert hours(engine) == [("1-a", 7, "{}", "{}", "{}", {"asked": 2, "spool": 5})]


def test_a_process_ends_once_and_says_where_it_ran(session: RecordingSession, engine: Engine) -> None:
    for is_ended, num_damaged in ((False, 2), (True, 0), (False, 1)):
        report = Report("1-a", Path("/spool")).damage(num_damaged)
        session.record([], report.question(is_ended=is_ended))
    with engine.connect() as connection:
        row = connection.execute(text("SELECT * FROM capture_processes")).one()
    assert (row.process, row.spool, row.num_damaged) == ("1-a", "/spool", 2)
    assert row.ended_at is not None
    assert row.host
