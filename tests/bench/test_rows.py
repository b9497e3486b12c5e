"""A round counts only if every answered call is a row with its ids and logprobs."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Engine

from bench.gateway import slipstream
from bench.gateway.outcome import Outcome
from bench.gateway.slipstream import LostRowsError, Rows
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_choice, a_policy


@pytest.fixture
def rows(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rows]:
    with engine.begin() as connection:
        a_policy(connection)
    monkeypatch.setattr(slipstream, "_SETTLE_SECONDS", 0.2)
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(Rows(url)) as found:
        yield found


def write(engine: Engine, count: int) -> None:
    calls = [a_call(choices=[a_choice(ids=[7, 8])]) for _ in range(count)]
    with engine.begin() as connection:
        record_calls(connection, calls)


def test_as_many_whole_rows_as_answers_settle_a_round(engine: Engine, rows: Rows) -> None:
    write(engine, 3)
    rows.settle(Outcome(num_answered=3), 2)
    write(engine, 2)
    rows.settle(Outcome(num_answered=1, num_failed=1), 2)


def test_a_missing_a_doubled_and_a_cut_row_are_told(engine: Engine, rows: Rows) -> None:
    write(engine, 1)
    with pytest.raises(LostRowsError, match="2 calls were answered, 1 rows came"):
        rows.settle(Outcome(num_answered=2), 2)
    write(engine, 1)
    with pytest.raises(LostRowsError, match="and 2 rows came"):
        rows.settle(Outcome(num_answered=1), 2)
    with pytest.raises(LostRowsError, match="only 0 have all ids"):
        rows.settle(Outcome(num_answered=2), 3)
