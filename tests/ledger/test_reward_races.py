"""I5: rewards and recordings at once, in any order, and a poster that dies."""

import os
import random
import signal
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection, Engine, text

from ledger.database import sync_engine
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_policy, rows
from tests.ledger.judged import COUNTED, post
from tests.ledger.together import run_all


def run_all_in(engine: Engine, work: list[Callable[[Connection], object]]) -> None:
    """Each in a transaction of its own."""

    def transaction(one: Callable[[Connection], object]) -> None:
        with engine.begin() as connection:
            one(connection)

    run_all([partial(transaction, one) for one in work])


@pytest.mark.parametrize("is_early", [True, False])
def test_fifty_identical_posts_at_once_make_one_event(engine: Engine, is_early: bool) -> None:
    """I5, B096."""
    with engine.begin() as connection:
        a_policy(connection)
        if not is_early:
            record_calls(connection, [a_call(external_id="x")])
    run_all_in(engine, [lambda connection: post(connection, "x", 0.5)] * 50)
    with engine.connect() as connection:
        assert rows(connection, "SELECT count(*) FROM reward_events") == [(1,)]


def test_rewards_and_recordings_in_any_interleaving_leave_no_early_event(engine: Engine) -> None:
    """I5: the poster and the recorder are different processes, and neither misses the other."""
    with engine.begin() as connection:
        a_policy(connection)
    calls = [a_call(external_id=f"x{n}") for n in range(40)]
    work: list[Callable[[Connection], None]] = [
        lambda c, call=call: record_calls(c, [call]) for call in calls
    ]  # type: ignore[misc]
    work += [lambda c, n=n: post(c, f"x{n}", 0.5) for n in range(40)]  # type: ignore[misc]
    random.Random(5).shuffle(work)
    run_all_in(engine, work)
    with engine.connect() as connection:
        assert {reason for *_, reason in rows(connection, COUNTED)} == {None}
        assert connection.scalar(text("SELECT count(*) FROM v1.trajectories WHERE reward = 0.5")) == 40


def test_a_poster_killed_right_after_its_commit_loses_nothing(engine: Engine, database_url: str) -> None:
    """I5, B095: what was answered with a 2xx is in Postgres, whatever happens to the process."""
    with engine.begin() as connection:
        a_policy(connection)
    child = os.fork()
    if child == 0:
        with sync_engine(database_url).begin() as own:
            post(own, "x", 0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with engine.connect() as connection:
        assert rows(connection, "SELECT target, value FROM reward_events") == [("x", 0.5)]
