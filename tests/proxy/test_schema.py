"""The proxy and the schema: ready once it fits, well with a newer one, and plain about what to run otherwise."""

import threading
from pathlib import Path

from sqlalchemy import Engine, text

from ledger.database import sync_engine
from migrations import migrate
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually, proxy_process, running_proxy, settings_for

NEWER = """
    ALTER TABLE exchanges ADD COLUMN of_tomorrow TEXT;
    ALTER TABLE trajectories ADD COLUMN of_tomorrow INTEGER DEFAULT 7 NOT NULL;
    ALTER TABLE policies ADD COLUMN of_tomorrow JSONB;
    ALTER TABLE projects ADD COLUMN of_tomorrow JSONB;
    ALTER TABLE api_keys ADD COLUMN of_tomorrow JSONB;
    ALTER TABLE reward_events ADD COLUMN of_tomorrow TEXT;
    CREATE TABLE tomorrow (id UUID PRIMARY KEY);
    UPDATE alembic_version SET version_num = '9999'
"""


def test_a_proxy_works_with_a_schema_one_migration_newer(
    engine: Engine, database_url: str, vllm: FakeVllm, tmp_path: Path
) -> None:
    """While processes are replaced one by one: started on it, calls, rewards, reading, the list of models."""
    with engine.begin() as connection:
        connection.exec_driver_sql(NEWER)
    with proxy_process(settings_for(database_url, vllm.url, tmp_path), engine) as (proxy, _):
        assert proxy.client.get("/ready").status_code == 200
        proxy.chat(headers={"X-Trajectory-Id": "t"})
        proxy.exchanges(1)
        assert (
            proxy.client.post("/v1/trajectories/t/reward", json={"reward": 1}).json()["status"] == "recorded"
        )
        assert proxy.client.get("/v1/trajectories/t").json()["reward"] == 1
        assert proxy.client.get("/v1/models").status_code == 200


def test_the_schema_may_become_newer_under_a_running_proxy(start_proxy: StartProxy, engine: Engine) -> None:
    proxy = start_proxy()
    proxy.chat()
    proxy.exchanges(1)
    with engine.begin() as connection:
        connection.exec_driver_sql(NEWER)
    proxy.chat()
    proxy.exchanges(2)
    assert proxy.metric("slipstream_rejected_total") == 0
    assert proxy.client.get("/ready").status_code == 200


def test_a_schema_that_is_behind_makes_it_not_ready_and_says_what_to_run(
    start_proxy: StartProxy, engine: Engine
) -> None:
    proxy = start_proxy()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))
    answer = proxy.client.get("/ready")
    assert answer.status_code == 503
    assert "slipstream migrate" in answer.text


def test_a_proxy_that_starts_before_migrate_waits_for_it(
    empty_database_url: str, vllm: FakeVllm, tmp_path: Path
) -> None:
    """B090: the order in which containers start decides nothing."""
    engine = sync_engine(empty_database_url)
    settings = settings_for(empty_database_url, vllm.url, tmp_path, database_wait_seconds=30)
    later = threading.Timer(1.0, migrate, [empty_database_url])
    later.start()
    with running_proxy(settings, engine) as proxy:
        later.join()
        assert proxy.chat().status_code == 200
        proxy.exchanges(1)
        eventually(lambda: proxy.client.get("/ready").status_code == 200)
    engine.dispose()
