"""I4: an accepted call is never lost, and never written twice."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from sqlalchemy import Connection, Engine, text

from ledger.database import database_address
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import (
    RunningProxy,
    eventually,
    free_port,
    proxy_process,
    running_proxy,
    settings_for,
    start_process,
)


def test_i4_kill_9_loses_no_answered_call_and_leaves_running_ones_as_interrupted(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """I4: the next process adopts the spool of the dead one."""
    settings = settings_for(database_url, vllm.url, tmp_path)
    with proxy_process(settings, engine) as (proxy, process):
        with engine.begin() as connection:  # nothing reaches Postgres while it lives
            connection.execute(text("LOCK TABLE exchanges IN ACCESS EXCLUSIVE MODE"))
            answered = {proxy.chat(stream=k % 2 == 0).headers["x-request-id"] for k in range(6)}
            vllm.faults.reply_seconds = 30
            hanging = threading.Thread(target=_ignore_errors, args=(proxy,))
            hanging.start()
            eventually(lambda: len(vllm.chats()) == 7)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)
        hanging.join(10)
    vllm.faults.reply_seconds = 0
    with running_proxy(settings, engine) as proxy:
        rows = proxy.exchanges(7)
        assert {row.request_id for row in rows if row.status == "completed"} == answered
        [interrupted] = [row for row in rows if row.status == "interrupted"]
        assert interrupted.untrainable_reason == "interrupted"
        eventually(lambda: proxy.metric("slipstream_adopted_total") == 7)
        proxy.chat()
        proxy.exchanges(8)


def _ignore_errors(proxy: RunningProxy) -> None:
    with pytest.raises(httpx.TransportError):
        proxy.chat()


def test_i4_the_proxy_serves_while_postgres_is_away_and_catches_up(
    start_proxy: StartProxy, administrator: Connection, database_url: str
) -> None:
    """I4: served, spooled, committed later; rewards say 503, since a 2xx would be a promise."""
    proxy = start_proxy()
    name = database_address(database_url).database
    administrator.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
    administrator.execute(
        text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"), {"name": name}
    )
    try:
        assert [proxy.chat().status_code for _ in range(3)] == [200] * 3
        assert proxy.client.get("/ready").status_code == 503
        refused = proxy.client.post("/v1/trajectories/t/reward", json={"reward": 1})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "ledger_unavailable")
        assert refused.headers["retry-after"]
        eventually(lambda: proxy.metric("slipstream_commit_failures_total"))
        assert proxy.metric("slipstream_spool_waiting_records") == 3
        assert min(proxy.metric(f"slipstream_spool_waiting_{unit}") for unit in ("bytes", "seconds")) > 0
    finally:
        administrator.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    proxy.exchanges(3)
    for unit in ("records", "bytes", "seconds"):
        eventually(lambda unit=unit: proxy.metric(f"slipstream_spool_waiting_{unit}") == 0)
    eventually(lambda: proxy.client.get("/ready").status_code == 200)


class BrokenSpool:
    """Stands where the spool's thread writes: a disk that is full from now on."""

    def __init__(self, proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch) -> None:
        from ledger.errors import SpoolFullError
        from ledger.spool.spool import Spool

        def full(*_: Any) -> None:
            raise SpoolFullError

        self.break_accept = lambda: monkeypatch.setattr(Spool, "accept", full)
        self.break_append = lambda: monkeypatch.setattr(Spool, "append", full)


def test_a_full_spool_refuses_calls_before_vllm_sees_them(
    start_proxy: StartProxy, vllm: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I10: nothing is served that is not recorded."""
    proxy = start_proxy()
    spool = BrokenSpool(proxy, monkeypatch)
    spool.break_append()
    late = proxy.chat()
    assert (late.status_code, late.json()["error"]["code"]) == (429, "capture_unavailable")
    streamed = proxy.chat(stream=True)
    assert "capture_unavailable" in streamed.text
    assert "[DONE]" not in streamed.text
    spool.break_accept()
    assert proxy.chat().status_code == 429
    seen = len(vllm.chats())  # once the spool is known to be broken, vLLM is spared
    refused = proxy.chat()
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    assert len(vllm.chats()) == seen


def test_i10_a_full_spool_can_serve_uncaptured_and_counts_it(
    start_proxy: StartProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I10"""
    proxy = start_proxy(on_spool_failure="serve")
    spool = BrokenSpool(proxy, monkeypatch)
    spool.break_append()
    spool.break_accept()
    answer = proxy.chat()
    assert (answer.status_code, answer.headers["x-captured"]) == (200, "false")
    assert proxy.metric("slipstream_uncaptured_total") == 1
    assert not proxy.rows()


NO_FIVES = "ALTER TABLE exchanges ADD CONSTRAINT no_fives CHECK (seed IS DISTINCT FROM 5)"
REJECTED = (
    "SELECT sum(upper(rejected) - lower(rejected)) AS num, max(upper(committed)) AS upper FROM capture_hours"
)


def test_i10_a_record_that_postgres_refuses_is_set_aside_and_is_written_at_the_next_start(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """I10: it holds up no other; the file waits as long as it is refused, and goes with its commit."""
    settings = settings_for(database_url, vllm.url, tmp_path)
    with running_proxy(settings, engine) as proxy:
        write(engine, NO_FIVES)
        proxy.chat(seed=5)
        proxy.chat(seed=6)
        assert proxy.exchanges()[0].seed == 6
        eventually(lambda: proxy.metric("slipstream_rejected_total") == 1)
    (path,) = (tmp_path / "spool" / "rejected").iterdir()
    assert path.suffix == ".call"
    with running_proxy(settings, engine) as proxy:
        eventually(lambda: proxy.chat() and len(proxy.rows()) > 2)
        assert path.exists()
        assert proxy.rows(REJECTED)[0].num == 1
    write(engine, "ALTER TABLE exchanges DROP CONSTRAINT no_fives")
    with running_proxy(settings, engine) as proxy:
        eventually(lambda: not path.exists())
        assert [row.seed for row in proxy.rows() if row.seed == 5] == [5]
        assert proxy.rows(REJECTED)[0].num is None


def write(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))


def test_an_unknown_log_level_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="DEBUG, INFO, WARNING or ERROR"):
        settings_for("postgresql://h/d", "http://127.0.0.1:1", tmp_path, log_level="loud")


@pytest.mark.parametrize("fault", ["schema", "server", "spool"])
def test_a_start_that_cannot_work_says_one_sentence_and_exits(
    empty_database_url: str, database_url: str, tmp_path: Path, fault: str
) -> None:
    expected = {"schema": "slipstream migrate", "server": "DATABASE_URL", "spool": "SLIPSTREAM_SPOOL"}[fault]
    url = {
        "schema": empty_database_url,
        "server": "postgresql://nobody@127.0.0.1:1/x",
        "spool": database_url,
    }[fault]
    (tmp_path / "file").touch()
    spool = tmp_path / "file" / "spool" if fault == "spool" else tmp_path / "spool"
    settings = settings_for(url, "http://127.0.0.1:1", tmp_path, spool=spool, database_wait_seconds=0)
    process = start_process(settings, free_port())
    _, output = process.communicate(timeout=60)
    assert process.returncode not in {0, None}
    assert expected in output.decode()
    assert "Traceback" not in output.decode()


def test_a_hundred_calls_at_once_are_a_hundred_rows(proxy: RunningProxy) -> None:
    """I4: and they share fsyncs."""

    def some() -> None:
        with httpx.Client(base_url=proxy.url, trust_env=False, timeout=60) as client:
            for k in range(10):
                body = {"model": "m", "messages": [{"role": "user", "content": str(k)}], "stream": k % 2 == 0}
                assert client.post("/v1/chat/completions", json=body).status_code == 200

    threads = [threading.Thread(target=some) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = proxy.exchanges(100)
    assert len({row.request_id for row in rows}) == 100


def test_two_worker_processes_serve_and_record(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a spool of its own; what uvicorn hands to them must survive pickling."""
    monkeypatch.setenv("SLIPSTREAM_WORKERS", "2")
    with proxy_process(settings_for(database_url, vllm.url, tmp_path), engine) as (proxy, process):
        assert process.poll() is None
        eventually(lambda: len(list((tmp_path / "spool").glob("*-*"))) == 2)
        assert proxy.chat().status_code == 200
        proxy.exchanges()


@pytest.mark.parametrize("damage", ["lock", "segment"])
def test_an_orphan_that_cannot_be_adopted_holds_up_no_call(
    start_proxy: StartProxy, tmp_path: Path, damage: str
) -> None:
    """I4: another user's directory, say, below the same spool."""
    orphan = tmp_path / "spool" / "1-dead"
    orphan.mkdir(parents=True)
    if damage == "segment":
        (orphan / "lock").touch()
    (orphan / ("lock" if damage == "lock" else "0000000001.segment")).mkdir()
    proxy = start_proxy(adopt_seconds=0.01)
    for count in (1, 2):
        proxy.chat()
        proxy.exchanges(count)
    assert orphan.is_dir()
