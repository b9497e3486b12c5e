"""SIGTERM: heeded while the start waits, and calls that outlast the shutdown's limit are told so."""

import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.proxy.running import free_port, settings_for, start_process

NOWHERE = "http://127.0.0.1:1"
STOPPED = "told to stop before it had started"


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
