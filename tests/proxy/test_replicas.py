"""Replicas: which one answers, and what happens when one is busy, unwell or gone (I8)."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.fakes.vllm import FakeVllm, running_fake_vllm
from tests.proxy.conftest import StartProxy
from tests.proxy.live_versions import publish, version_of
from tests.proxy.running import RunningProxy, eventually


@pytest.fixture
def second_vllm() -> Iterator[FakeVllm]:
    with running_fake_vllm() as fake:
        yield fake


def test_i8_a_dead_vllm_is_waited_for_then_a_503_says_so(start_proxy: StartProxy, vllm: FakeVllm) -> None:
    """I8"""
    proxy = start_proxy(upstream_wait_seconds=0.5)
    vllm.stop()
    response = proxy.chat()
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert response.json()["error"]["code"] == "upstream_unavailable"
    assert proxy.client.get("/ready").status_code == 503
    assert proxy.client.get("/health").status_code == 200
    vllm.start()
    eventually(lambda: proxy.client.get("/ready").status_code == 200)
    assert proxy.chat().status_code == 200


def test_i8_a_call_that_waits_is_answered_by_the_restarted_vllm_under_the_learned_name(
    proxy: RunningProxy, vllm: FakeVllm, engine: Engine
) -> None:
    """I8"""
    publish(engine, 2)
    eventually(lambda: version_of(proxy) == "2")
    vllm.stop()
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(proxy.chat()))
    waiting.start()
    time.sleep(0.5)
    vllm.start()
    waiting.join(20)
    assert (answers[0].status_code, answers[0].json()["model"]) == (200, "default@2")


def test_calls_go_to_every_replica_and_around_a_dead_one(
    start_proxy: StartProxy, vllm: FakeVllm, second_vllm: FakeVllm, engine: Engine
) -> None:
    proxy = start_proxy(upstream=f"{vllm.url}/v1, {second_vllm.url}/", affinity_slack=0, affinity_factor=1)
    publish(engine, 1)
    eventually(lambda: version_of(proxy) == "1")
    assert set(vllm.adapters) == set(second_vllm.adapters) == {"default@1"}
    vllm.faults.reply_seconds = second_vllm.faults.reply_seconds = 0.3
    threads = [threading.Thread(target=proxy.chat) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert vllm.chats()
    assert second_vllm.chats()
    vllm.stop()
    assert [proxy.chat().status_code for _ in range(4)] == [200] * 4


def test_calls_that_share_a_prefix_go_to_one_replica_until_it_is_clearly_busier(
    start_proxy: StartProxy, vllm: FakeVllm, second_vllm: FakeVllm
) -> None:
    proxy = start_proxy(upstream=f"{vllm.url},{second_vllm.url}", affinity_slack=1, affinity_factor=1)

    def ask(prompt: str) -> None:
        assert proxy.chat(messages=[{"role": "user", "content": prompt}]).status_code == 200

    for _ in range(6):
        ask("one")
    assert sorted([len(vllm.chats()), len(second_vllm.chats())]) == [0, 6]
    for number in range(20):  # all on one side: once in 500,000
        ask(f"other-{number}")
    assert vllm.chats()
    assert second_vllm.chats()
    vllm.seen.clear()
    second_vllm.seen.clear()
    vllm.faults.reply_seconds = second_vllm.faults.reply_seconds = 1
    calls = [threading.Thread(target=ask, args=("one",)) for _ in range(5)]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    # its own gets two (0, then 1 beside an idle one), the other one, and so on: 3 and 2
    assert sorted([len(vllm.chats()), len(second_vllm.chats())]) == [2, 3]


def test_an_unwell_vllm_gets_no_calls(start_proxy: StartProxy, vllm: FakeVllm, second_vllm: FakeVllm) -> None:
    vllm.faults.is_unwell = True
    proxy = start_proxy(upstream=f"{vllm.url},{second_vllm.url}")
    assert proxy.client.get("/ready").json()["replicas"] == {vllm.url: "down", second_vllm.url: "ready"}
    assert proxy.chat().status_code == 200
    assert not vllm.chats()


def test_a_vllm_whose_engine_died_is_waited_for_its_500_is_nobodys_answer(
    proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """I8: it answers 500 for a moment before it ends; /health says that it is not well."""
    dead = b'{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError","param":null,"code":500}}'
    vllm.faults.status, vllm.faults.raw_body, vllm.faults.is_unwell = 500, dead, True

    def restart() -> None:
        vllm.faults.status, vllm.faults.raw_body, vllm.faults.is_unwell = None, None, False

    timer = threading.Timer(1.0, restart)
    timer.start()
    reply = proxy.chat()
    timer.join()
    assert (reply.status_code, reply.json().get("object")) == (200, "chat.completion")
    [row] = proxy.exchanges()
    assert row.status == "completed"


def test_a_500_of_a_healthy_vllm_passes(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.status, vllm.faults.raw_body = (
        500,
        b'{"error":{"message":"no","type":"x","param":null,"code":500}}',
    )
    reply = proxy.chat()
    assert (reply.status_code, reply.json()["error"]["message"]) == (500, "no")
    assert len(vllm.chats()) == 1


def test_a_replica_that_accepts_no_connection_is_passed_over(
    start_proxy: StartProxy, vllm: FakeVllm, second_vllm: FakeVllm
) -> None:
    """Its machine is gone: connecting times out, and no refusal says so."""
    upstream = f"{vllm.url},{second_vllm.url}"
    proxy = start_proxy(upstream=upstream, watch_seconds=30, upstream_connect_seconds=0.3)
    vllm.stop()
    with unreachable_port(vllm.port):
        for k in range(16):  # either replica is the one that some of these prompts prefer
            assert proxy.chat(messages=[{"role": "user", "content": str(k)}]).status_code == 200
    assert proxy.metric("slipstream_upstream_retries_total") >= 1


@contextmanager
def unreachable_port(port: int) -> Iterator[None]:
    """A port whose queue of connections is full: the kernel answers no more."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield
