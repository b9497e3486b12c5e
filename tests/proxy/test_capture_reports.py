"""What a proxy tells the ledger of its calls, and what `slipstream audit` then says (ADR 0010)."""

import errno
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine

from ledger.audit.evidence import Audit
from ledger.audit.evidence import audit as audit_ledger
from ledger.spool.segment import SegmentWriter
from ledger.spool.spool import Spool
from proxy.capture_reports import CaptureReports
from proxy.metrics import Metrics
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually, proxy_process, running_proxy, settings_for

ENDED = "SELECT process, ended_at IS NOT NULL AS is_ended FROM capture_processes ORDER BY created_at"


def audited(proxy: RunningProxy, directory: Path) -> Audit:
    return audit_ledger(proxy.engine, directory / "spool", 24)


def test_the_metrics_and_the_audit_say_the_same(proxy: RunningProxy, tmp_path: Path) -> None:
    for k in range(3):
        proxy.chat(stream=k == 0)
    proxy.chat(headers={"X-Slipstream-Capture": "off"})
    proxy.exchanges(3)
    eventually(lambda: audited(proxy, tmp_path).hours[-1].uncaptured)
    hours = audited(proxy, tmp_path).hours
    assert sum(hour.num_accepted for hour in hours) == proxy.metric("slipstream_accepted_total") == 3
    assert sum(len(hour.committed) for hour in hours) == proxy.metric("slipstream_committed_total") == 3
    assert sum(hour.num_spooled for hour in hours) == proxy.metric("slipstream_spooled_total") == 3
    assert [dict(hour.uncaptured) for hour in hours if hour.uncaptured] == [{"asked": 1}]
    assert proxy.metric("slipstream_lost_total") == 0
    assert audited(proxy, tmp_path).is_whole


def test_a_running_call_is_known_to_the_ledger_within_a_second_or_two(
    proxy: RunningProxy, vllm: FakeVllm, tmp_path: Path
) -> None:
    """So that even a lost disk is noticed."""
    vllm.faults.reply_seconds = 4
    hanging = threading.Thread(target=proxy.chat)
    hanging.start()
    eventually(lambda: proxy.rows("SELECT * FROM capture_hours WHERE num_accepted = 1"), 3.5)
    assert [hour.num_running for hour in audited(proxy, tmp_path).hours] == [1]
    hanging.join()


def test_i4_a_process_ends_with_its_calls_or_is_ended_by_its_adopter(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """I4: a clean end, a kill -9, and the audit that sees the second before anybody adopts."""
    settings = settings_for(database_url, vllm.url, tmp_path)
    with running_proxy(settings, engine) as proxy:
        proxy.chat()
        proxy.exchanges(1)
    assert [row.is_ended for row in proxy.rows(ENDED)] == [True]
    with proxy_process(settings, engine) as (proxy, process):
        proxy.chat()
        proxy.exchanges(2)
        vllm.faults.reply_seconds = 30
        hanging = threading.Thread(target=_ignore_errors, args=(proxy,))
        hanging.start()
        eventually(lambda: len(vllm.chats()) == 3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    hanging.join(10)
    found = audited(proxy, tmp_path)
    assert found.is_whole
    assert sum(hour.num_running for hour in found.hours) == 1
    vllm.faults.reply_seconds = 0
    with running_proxy(settings, engine) as proxy:
        proxy.exchanges(3)
        eventually(lambda: all(row.is_ended for row in proxy.rows(ENDED)))
        found = audited(proxy, tmp_path)
    assert found.is_whole
    assert sum(hour.num_interrupted for hour in found.hours) == 1
    assert sum(hour.num_running for hour in found.hours) == 0


def _ignore_errors(proxy: RunningProxy) -> None:
    import httpx

    with pytest.raises(httpx.TransportError):
        proxy.chat()


def test_i10_a_stream_served_though_its_end_could_not_be_written_is_counted_and_interrupted(
    start_proxy: StartProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """I10: its head had said x-captured: true."""
    proxy = start_proxy(on_spool_failure="serve")

    def full(_: SegmentWriter) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(SegmentWriter, "sync", full)
        served = proxy.chat(stream=True)
    assert (served.status_code, served.headers["x-captured"]) == (200, "true")
    assert "[DONE]" in served.text
    assert proxy.chat().headers["x-captured"] == "true"
    assert [row.status for row in proxy.exchanges(2)] == ["interrupted", "completed"]
    eventually(lambda: proxy.metric("slipstream_unwritten_total") == 1)
    found = audited(proxy, tmp_path)
    assert found.is_whole
    assert sum(hour.num_interrupted for hour in found.hours) == 1
    eventually(
        lambda: (
            [dict(h.uncaptured) for h in audited(proxy, tmp_path).hours if h.uncaptured]
            == [{"spool": 1, "unwritten": 1}]
        )
    )


def test_i10_what_was_uncaptured_in_hours_without_postgres_is_told_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I10: all of them, once, and then the last two hours, of which more may come."""
    spool, metrics = Spool.open(tmp_path), Metrics()
    reports = CaptureReports(spool, tmp_path, metrics)
    for hour in range(5):
        monkeypatch.setattr(time, "time", lambda hour=hour: hour * 3600.0)
        metrics.uncaptured.labels("asked").inc(hour + 1)
        told = reports.report().question()[1]
    assert told["uncaptured"] == [f'{{"asked":{number}}}' for number in (1, 2, 3, 4, 5)]
    reports.told()
    assert len(reports.report().question()[1]["uncaptured"]) == 2
    spool.close()
