"""SIGTERM: heeded while the start waits, and calls that outlast the shutdown's limit are told so."""

import json
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from tests.fakes.vllm import FakeVllm
from tests.proxy.raw_connection import HEAD, connected, read_all
from tests.proxy.running import (
    eventually,
    free_port,
    proxy_process,
    running_proxy,
    settings_for,
    start_process,
)

NOWHERE = "http://127.0.0.1:1"
STOPPED = "told to stop before it had started"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 20}


@contextmanager
def starting(database: str, directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A proxy that waits for its database."""
    settings = settings_for(database, NOWHERE, directory, database_wait_seconds=60)
    process = start_process(settings, free_port())
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def stopped(process: "subprocess.Popen[bytes]", number: signal.Signals) -> str:
    """What it still says. It ends at once: long before it would have given up."""
    began = time.monotonic()
    process.send_signal(number)
    _, output = process.communicate(timeout=20)
    assert time.monotonic() - began < 6
    return output.decode()


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_waits_for_postgres_heeds_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, num_workers: int
) -> None:
    monkeypatch.setenv("SLIPSTREAM_WORKERS", str(num_workers))
    with starting("postgresql://nobody@127.0.0.1:1/x", tmp_path) as process:
        assert process.stderr is not None
        assert b"database_awaited" in process.stderr.readline()
        said = stopped(process, number)
    assert 1 <= said.count(STOPPED) <= num_workers  # one may not have come as far
    assert "Traceback" not in said


def test_a_start_whose_postgres_accepts_and_says_nothing_heeds_a_signal(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/x"
        with starting(url, tmp_path) as process:
            assert select.select([silent], [], [], 60)[0]
            said = stopped(process, signal.SIGTERM)
    assert said.count(STOPPED) == 1
    assert "Traceback" not in said


def test_calls_that_outlast_the_shutdowns_limit_are_told_so_and_recorded(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """I4: a stream, a whole answer, and a request whose body is still on its way."""
    vllm.faults.event_seconds, vllm.faults.reply_seconds = 0.1, 30
    settings = settings_for(database_url, vllm.url, tmp_path, shutdown_seconds=1)
    with proxy_process(settings, engine) as (proxy, process), ThreadPoolExecutor() as threads:

        def post(*, stream: bool) -> httpx.Response:
            body = {**BODY, "stream": stream, "max_tokens": 2000}
            return httpx.post(f"{proxy.url}/v1/chat/completions", json=body, timeout=30)

        streamed, whole = threads.submit(post, stream=True), threads.submit(post, stream=False)
        with connected(proxy) as uploading:
            uploading.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
            eventually(lambda: vllm.num_chunks_sent > 3 and len(vllm.chats()) == 2)
            process.send_signal(signal.SIGTERM)
            _, output = process.communicate(timeout=20)
            cut = read_all(uploading)
    assert streamed.result().status_code == 200
    *events, last, end = streamed.result().text.split("\n\n")
    assert (json.loads(last.removeprefix("data: "))["error"]["code"], end) == ("shutting_down", "")
    assert "[DONE]" not in streamed.result().text
    assert whole.result().json()["error"]["code"] == "shutting_down"
    assert (whole.result().status_code, whole.result().headers["retry-after"]) == (503, "1")
    assert cut.startswith(b"HTTP/1.1 503 ")
    assert b'"shutting_down"' in cut
    assert b"Traceback" not in output
    assert b"ASGI" not in output
    rows = {row.is_streamed: row for row in proxy.exchanges(2)}
    assert {row.status for row in rows.values()} == {"cancelled"}
    assert [rows[k].http_status for k in (True, False)] == [200, None]
    assert len(rows[True].completion_ids) == len(events) - 1  # without the role


def test_a_stream_open_during_shutdown_ends_normally_and_is_recorded(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """B053: its row is written before the process is gone."""
    vllm.faults.event_seconds = 0.1
    answers: list[str] = []
    with running_proxy(settings_for(database_url, vllm.url, tmp_path), engine) as proxy:
        reading = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{proxy.url}/v1/chat/completions", json=BODY, timeout=30).text
            )
        )
        reading.start()
        eventually(lambda: vllm.num_chunks_sent > 3)
    reading.join(10)
    assert answers[0].endswith("data: [DONE]\n\n")
    assert [row.status for row in proxy.rows()] == ["completed"]
    assert not list((tmp_path / "spool").rglob("*.seg*"))
