"""A question to Postgres that meets a deadlock is asked again; one that is wrong is not."""

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine

from proxy.errors import LedgerUnavailableError
from proxy.management.bounded import MOST_TRIES, in_transaction

FAIL = "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{}'; END $$"


def asked(database_url: str, question: Callable[[Connection], int]) -> int:
    async def ask() -> int:
        engine = create_async_engine(database_url)
        try:
            return await in_transaction(engine, question)
        finally:
            await engine.dispose()

    return asyncio.run(ask())


@pytest.mark.parametrize("state", ["40P01", "40001", "55P03"])
def test_a_deadlock_is_asked_again_from_the_start(database_url: str, state: str) -> None:
    tries = []

    def question(connection: Connection) -> int:
        tries.append(None)
        connection.execute(text("CREATE TABLE once (x integer)"))  # rolled back with what failed
        if len(tries) < MOST_TRIES:
            connection.execute(text(FAIL.format(state)))
        return len(tries)

    assert asked(database_url, question) == MOST_TRIES


@pytest.mark.parametrize(("state", "num_tries"), [("40P01", MOST_TRIES), ("57P01", 1)])
def test_what_does_not_pass_is_a_503(database_url: str, state: str, num_tries: int) -> None:
    tries = []

    def question(connection: Connection) -> int:
        tries.append(None)
        connection.execute(text(FAIL.format(state)))
        return 0

    with pytest.raises(LedgerUnavailableError):
        asked(database_url, question)
    assert len(tries) == num_tries
