"""The bench's own processes, run as it runs them, and what it tells the others."""

import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from bench.gateway import litellm, nginx
from bench.gateway.bench import values_of
from bench.gateway.children import ROOT, ChildFailedError, environment, python, started
from bench.gateway.outcome import Load, Outcome
from bench.gateway.profile import summary
from slipstream.local.child import ChildSpec
from slipstream.local.ports import free_ports
from tests.proxy.running import eventually


def driven(mock: str, **values: object) -> Outcome:
    load = Load(**{"port": int(mock.rpartition(":")[2]), "num_connections": 4, "num_calls": 20, "num_tokens": 8, **values})  # type: ignore[arg-type]  # fmt: skip
    command = python("-m", "bench.gateway.load", load.to_json())
    return Outcome.from_json(
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment()).stdout
    )


def test_every_call_ends_in_the_outcome(mock: str) -> None:
    whole = driven(mock)
    assert (whole.num_answered, whole.num_failed, len(whole.latency_ms)) == (20, 0, 20)
    streamed = driven(mock, is_streamed=True)
    assert (streamed.num_answered, streamed.num_events, len(streamed.first_token_ms)) == (20, 160, 20)


def test_calls_that_nobody_answers_are_failed_ones() -> None:
    (port,) = free_ports(1)
    outcome = driven(f"http://127.0.0.1:{port}", num_calls=7)
    assert (outcome.num_answered, outcome.num_failed) == (0, 7)
    assert "no connection" in outcome.faults[0]


def test_the_mock_paces_its_streams_and_names_replies_by_request_id(mock: str) -> None:
    pace = {"event_seconds": 0.05, "reply_seconds": 0.0}
    body = {"messages": [], "model": "m", "max_tokens": 5, "stream": True}
    with httpx.Client(base_url=mock, trust_env=False) as client:
        client.post("/bench/pace", json=pace)
        begun = time.monotonic()
        reply = client.post("/v1/chat/completions", json=body, headers={"X-Request-Id": "abc"})
        took = time.monotonic() - begun
        client.post("/bench/pace", json={**pace, "event_seconds": 0})
        assert client.get("/bench/counts").json()["num_open_streams"] == 0
    assert '"id":"chatcmpl-abc"' in reply.text
    assert took >= 0.2  # 5 tokens: four pauses, and one before [DONE]


def test_the_mock_has_a_vllms_other_routes(mock: str) -> None:
    with httpx.Client(base_url=mock, trust_env=False) as client:
        loaded = client.post("/v1/load_lora_adapter", json={"lora_name": "default@1", "lora_path": "/x"})
        names = [model["id"] for model in client.get("/v1/models").json()["data"]]
        assert (loaded.status_code, names) == (200, ["base-model", "default@1"])
        assert client.get("/nothing").status_code == 404


def test_a_trees_cpu_is_that_of_its_processes_and_stands_still_when_frozen(tmp_path: Path) -> None:
    busy = "import os; os.fork(); i = 0\nwhile True: i += 1"
    with started(
        ChildSpec("busy", "", command=python("-c", busy), environment=environment()), tmp_path
    ) as tree:
        eventually(lambda: len(tree.pids()) == 2 and tree.cpu_seconds() > 0.05)
        assert tree.memory_kib() > 1000
        tree.freeze()
        time.sleep(0.2)  # a process stops when it next enters the kernel
        frozen = tree.cpu_seconds()
        time.sleep(0.3)
        assert tree.cpu_seconds() == frozen
        pids = tree.pids()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    spec = ChildSpec("odd", "Mend it.", lambda: "no", python("-c", "exit('the reason')"), environment())
    with (
        pytest.raises(ChildFailedError, match=r"(?s)exit code 1.*Mend it.*the reason"),
        started(spec, tmp_path),
    ):
        pass


def test_ours_is_not_configured_by_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLIPSTREAM_WORKERS", "DATABASE_URL", "https_proxy"):
        monkeypatch.setenv(name, "http://nobody")
    assert not {"SLIPSTREAM_WORKERS", "DATABASE_URL", "https_proxy"} & environment().keys()
    assert environment(SLIPSTREAM_WORKERS="2")["SLIPSTREAM_WORKERS"] == "2"


def test_values_are_per_request_or_per_token() -> None:
    whole = Outcome(seconds=2, num_answered=100, latency_ms=[1.0] * 98 + [5.0, 9.0])
    assert values_of(whole, 0.05, 0.01) == {
        "cpu_us": pytest.approx(500),
        "ledger_cpu_us": pytest.approx(100),
        "per_second": 50,
        "num_answered": 100,
        "num_failed": 0,
        "median_ms": 1,
        "p99_ms": 5,
    }
    streamed = Outcome(seconds=1, num_answered=2, num_events=400, latency_ms=[9, 9], first_token_ms=[1, 2])
    assert values_of(streamed, 0.04, 0)["cpu_us"] == pytest.approx(100)
    assert values_of(streamed, 0.04, 0)["p99_ms"] == 2


def test_a_profile_counts_functions_once_a_stack_and_leaves_waiting_threads_out() -> None:
    lines = [
        "thread (7): MainThread;run (a.py:1);feed (b.py:3) 3",
        "thread (7): MainThread;run (a.py:2);run (a.py:5) 1",
        "thread (8): spool_0;_worker (concurrent/futures/thread.py:81) 9",
    ]
    text = summary(lines, {7: 1.5, 8: 0.25})
    assert "1.500 s  MainThread" in text
    assert " 75.00 %  feed (b.py)" in text
    assert "100.00 %  run (a.py)" in text
    assert "_worker" not in text


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not on this machine")
def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text(nginx.config(tmp_path, 18080, 18081))
    tried = subprocess.run(["nginx", "-t", "-c", file], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr


def test_litellms_configuration_leads_to_the_mock() -> None:
    import yaml

    (model,) = yaml.safe_load(litellm.config(1234))["model_list"]
    assert model["litellm_params"]["api_base"] == "http://127.0.0.1:1234/v1"
    assert model["litellm_params"]["model"] == "openai/base-model"
