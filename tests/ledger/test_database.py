import asyncio
import os
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.database import async_engine, check_database, database_address, sync_engine, translated_errors
from ledger.errors import DatabaseUnreachableError


@pytest.fixture
async def slow_engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = async_engine(database_url, pool_size=4)
    yield engine
    await engine.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_a_postgres_url_is_accepted(scheme: str) -> None:
    assert database_address(f"{scheme}://u:p%40@h:1/d").drivername == "postgresql+psycopg"


@pytest.mark.parametrize("url", ["mysql://h/d", "nonsense", ""])
def test_another_url_is_refused_in_one_sentence(url: str) -> None:
    with pytest.raises(DatabaseUnreachableError, match="DATABASE_URL"):
        sync_engine(url)


def test_a_missing_server_is_one_sentence_with_the_remedy() -> None:
    engine = sync_engine("postgresql://127.0.0.1:1/none")
    with pytest.raises(DatabaseUnreachableError, match="DATABASE_URL"), translated_errors(), engine.connect():
        pass


def test_what_the_server_said_names_address_and_reason_and_no_password() -> None:
    engine = sync_engine("postgresql://u:s3cret@127.0.0.1:1/none")
    with (
        pytest.raises(DatabaseUnreachableError, match="refused") as found,
        translated_errors(),
        engine.connect(),
    ):
        pass
    assert "127.0.0.1" in str(found.value)
    assert "s3cret" not in str(found.value)


async def test_a_thousand_cancelled_tasks_leave_the_pool_whole(slow_engine: AsyncEngine) -> None:
    """B086."""

    async def query() -> None:
        async with slow_engine.connect() as connection:
            await connection.execute(text("SELECT pg_sleep(0.01)"))

    for _ in range(10):
        tasks = [asyncio.create_task(query()) for _ in range(100)]
        await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert slow_engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    await query()


def test_a_child_process_makes_its_own_engine(engine: Engine, database_url: str) -> None:
    """B088: the parent's connections survive a fork whose child uses an engine of its own."""
    with engine.connect() as connection:
        check_database(connection)
    child = os.fork()
    if child == 0:
        engine.dispose(close=False)
        own = sync_engine(database_url)
        with own.connect() as connection:
            is_well = connection.scalar(text("SELECT 1")) == 1
        os._exit(0 if is_well else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for _ in range(10):
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT 1")) == 1


def test_nothing_is_prepared_on_the_server(engine: Engine) -> None:
    """B088: PgBouncer in transaction mode would hand the statement to another connection."""
    with engine.connect() as connection:
        for number in range(20):
            connection.execute(text("SELECT CAST(:number AS integer)"), {"number": number})
        assert connection.scalar(text("SELECT count(*) FROM pg_prepared_statements")) == 0


def test_the_pool_never_holds_more_than_it_says(engine: Engine) -> None:
    """B093."""
    assert (engine.pool.size(), engine.pool._max_overflow) == (5, 0)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="pool_size"):
        sync_engine("postgresql://h/d", pool_size=0)


def test_a_server_whose_machine_is_gone_is_noticed_within_a_minute(engine: Engine) -> None:
    """Without these the kernel waits for two hours, and so would the writer."""
    with engine.connect() as connection:
        told = connection.connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
    idle, interval, count = (int(told[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
    assert idle + interval * count < 60
    assert int(told["tcp_user_timeout"]) < 60_000
