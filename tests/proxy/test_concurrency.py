"""How many calls a key may have running: one more is a 429 that vLLM never sees, and every ending gives its slot back."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.keys import create_key
from ledger.vocabulary import Scope
from proxy.access.concurrency import Concurrency
from proxy.errors import TooManyCallsError
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually


def test_one_call_too_many_is_refused_before_vllm_sees_it_and_no_other_key_is(
    start_proxy: StartProxy, engine: Engine, vllm: FakeVllm
) -> None:
    with engine.begin() as connection:
        keys = [create_key(connection, [Scope.INFER])[0] for _ in range(2)]
    busy, other = ({"authorization": f"Bearer {key}"} for key in keys)
    proxy = start_proxy(max_concurrent_per_key=2)
    vllm.faults.reply_seconds = 3
    calls = [threading.Thread(target=proxy.chat, args=(busy,)) for _ in range(2)]
    for call in calls:
        call.start()
    eventually(lambda: len(vllm.chats()) == 2)
    refused = proxy.chat(busy)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["retry-after"] == "1"
    assert "SLIPSTREAM_MAX_CONCURRENT_PER_KEY" in refused.json()["error"]["message"]
    assert len(vllm.chats()) == 2
    assert proxy.client.get("/v1/models", headers=busy).status_code == 200  # only calls count
    vllm.faults.reply_seconds = 0
    assert proxy.chat(other).status_code == 200
    for call in calls:
        call.join()
    assert proxy.chat(busy).status_code == 200


def hang_up(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.event_seconds = 0.05
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 1000}
    with proxy.client.stream("POST", "/v1/chat/completions", json=body) as response:
        next(response.iter_bytes())
    vllm.faults.event_seconds = 0


def break_off(proxy: RunningProxy, vllm: FakeVllm) -> None:
    vllm.faults.die_after_events = 1
    proxy.chat(stream=True)
    vllm.faults.die_after_events = None


def refuse(proxy: RunningProxy, vllm: FakeVllm) -> None:
    assert proxy.chat(n=0).status_code == 400
    assert proxy.chat(messages=[]).status_code == 400


def answer(proxy: RunningProxy, vllm: FakeVllm) -> None:
    assert proxy.chat().status_code == 200
    assert proxy.chat(stream=True).status_code == 200


@pytest.mark.parametrize("end", [answer, refuse, break_off, hang_up])
def test_every_ending_gives_the_slot_back(
    start_proxy: StartProxy, vllm: FakeVllm, end: Callable[..., Any]
) -> None:
    """While no key exists, the process has one count."""
    proxy = start_proxy(max_concurrent_per_key=1)
    end(proxy, vllm)
    eventually(lambda: proxy.chat().status_code == 200, 3)


def test_a_key_without_calls_is_forgotten() -> None:
    concurrency = Concurrency(1)
    with concurrency.slot(None), pytest.raises(TooManyCallsError), concurrency.slot(None):
        pass
    assert concurrency.num_running == {}
