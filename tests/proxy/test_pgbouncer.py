"""Behind PgBouncer in transaction mode: each transaction may meet another server session, and none keeps anything."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text

from ledger.database import sync_engine
from ledger.keys import create_key, revoke_key
from ledger.policies import move_live
from ledger.vocabulary import Scope
from migrations import migrate
from tests.fakes.vllm import FakeVllm
from tests.pgbouncer import POOL_SIZE, pooled_url
from tests.proxy.running import RunningProxy, eventually, running_proxy, settings_for


@pytest.fixture
def pooled(database_url: str, pgbouncer_port: int) -> str:
    return pooled_url(database_url, pgbouncer_port)


@pytest.fixture
def proxy(pooled: str, engine: Engine, vllm: FakeVllm, tmp_path: Path) -> Iterator[RunningProxy]:
    """It knows PgBouncer alone; the test looks at Postgres directly."""
    with running_proxy(settings_for(pooled, vllm.url, tmp_path), engine) as running:
        yield running


def sessions(url: str, query: str) -> list[object]:
    """The answer of each server session that PgBouncer holds, one transaction on each at once."""
    engine = sync_engine(url, pool_size=POOL_SIZE)
    connections = [engine.connect() for _ in range(POOL_SIZE)]
    try:
        return [answer for connection in connections for answer in connection.scalars(text(query))]
    finally:
        for connection in connections:
            connection.close()
        engine.dispose()


def test_i4_calls_and_rewards_are_recorded_through_pgbouncer(proxy: RunningProxy) -> None:
    """COPY, libpq's pipeline, advisory locks and savepoints, from several clients at once."""

    def talk(number: int) -> None:
        with httpx.Client(base_url=proxy.url, trust_env=False, timeout=60) as client:
            for turn in range(5):
                body = {
                    "model": "m",
                    "messages": [{"role": "user", "content": f"{turn}"}],
                    "stream": turn % 2 == 0,
                    "n": 2,
                }
                headers = {"x-trajectory-id": f"talk-{number}"}
                assert client.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
            reward = client.post(f"/v1/trajectories/talk-{number}/reward", json={"reward": 1})
            assert reward.status_code == 200
            assert client.get(f"/v1/trajectories/talk-{number}").status_code in {
                200,
                404,
            }  # it may not be written yet

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proxy.exchanges(80)
    assert proxy.metric("slipstream_commit_failures_total") == 0
    assert proxy.metric("slipstream_rejected_total") == 0
    eventually(
        lambda: proxy.rows("SELECT count(*) FROM reward_events WHERE trajectory_id IS NOT NULL")[0][0] == 8
    )


def test_what_postgres_would_notify_of_is_polled(proxy: RunningProxy, pooled: str) -> None:
    """LISTEN would make another client's session listen: nobody listens, and a second is what it takes."""
    assert sessions(pooled, "SELECT pg_listening_channels()") == []
    with proxy.engine.begin() as connection:
        key, info = create_key(connection, [Scope.INFER])
    eventually(lambda: proxy.chat().status_code == 401, 5)
    proxy.client.headers["authorization"] = f"Bearer {key}"
    assert proxy.chat().status_code == 200
    with proxy.engine.begin() as connection:
        policy_id = connection.scalar(text("SELECT id FROM policies"))
        assert policy_id is not None
        move_live(connection, policy_id, 1)
    eventually(lambda: proxy.chat().headers.get("x-model-version") == "1", 10)
    with proxy.engine.begin() as connection:
        revoke_key(connection, info.prefix)
    eventually(lambda: proxy.chat().status_code == 401, 5)


def test_nothing_is_left_behind_in_a_server_session(proxy: RunningProxy, pooled: str) -> None:
    """B088: no prepared statement, no setting, no lock, no temporary table for whoever comes next."""
    proxy.chat()
    proxy.exchanges(1)
    assert sessions(pooled, "SELECT name FROM pg_prepared_statements") == []
    assert set(sessions(pooled, "SELECT current_setting('lock_timeout')")) == {"0"}
    assert sessions(pooled, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") == []


def test_twenty_starters_migrate_through_pgbouncer(empty_database_url: str, pgbouncer_port: int) -> None:
    """B090: locks that end with their transaction, and no setting that outlives it."""
    url, failures = pooled_url(empty_database_url, pgbouncer_port), []

    def start() -> None:
        try:
            migrate(url)
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(sessions(url, "SELECT current_setting('lock_timeout')")) == {"0"}
