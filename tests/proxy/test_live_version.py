"""Versions: the learned name is answered by its own adapter, or not at all (I2, I8)."""

import threading
import time

import pytest
from sqlalchemy import Engine

from ledger.policies import ensure_policy, move_live
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.live_versions import publish, version_of
from tests.proxy.running import RunningProxy, eventually


def test_i2_a_published_version_answers_within_a_second_and_is_stamped(
    proxy: RunningProxy, vllm: FakeVllm, engine: Engine
) -> None:
    """I2"""
    assert version_of(proxy) == "0"
    publish(engine, 1)
    eventually(lambda: version_of(proxy) == "1", 1.5)
    assert proxy.chat().json()["model"] == "default@1"
    assert list(vllm.adapters) == ["default@1"]
    assert b'"model":"default@1"' in vllm.chats()[-1].body
    eventually(
        lambda: proxy.rows("SELECT 1 FROM exchanges WHERE version = 1 AND answered_model = 'default@1'")
    )
    assert proxy.chat(model="default@0").headers["x-model-version"] == "0"
    assert proxy.chat(model="default@1").headers["x-model-version"] == "1"


def test_i2_another_model_in_the_reply_is_a_version_mismatch(
    proxy: RunningProxy, vllm: FakeVllm, engine: Engine
) -> None:
    """I2: recorded as untrainable, counted, and not covered up."""
    publish(engine, 1)
    eventually(lambda: version_of(proxy) == "1")
    vllm.faults.answer_as = "base-model"
    assert proxy.chat().json()["model"] == "base-model"
    eventually(lambda: proxy.rows("SELECT 1 FROM exchanges WHERE untrainable_reason = 'version_mismatch'"))
    assert proxy.metric("slipstream_version_mismatches_total") == 1


def test_i8_a_replica_that_lost_its_adapter_gets_it_again_before_it_answers(
    start_proxy: StartProxy, vllm: FakeVllm, engine: Engine
) -> None:
    """I8, B162: restarted between two looks at it; vLLM's 404 never reaches the client, nor does the base."""
    proxy = start_proxy(watch_seconds=30)
    publish(engine, 1)
    eventually(lambda: version_of(proxy) == "1", 3)
    vllm.adapters.clear()
    response = proxy.chat()
    assert (response.status_code, response.json()["model"]) == (200, "default@1")
    assert list(vllm.adapters) == ["default@1"]


def test_i8_a_version_that_cannot_be_loaded_does_not_become_live(
    proxy: RunningProxy, vllm: FakeVllm, engine: Engine
) -> None:
    """I8: the old version serves on under its own name, and /ready says what is wrong."""
    vllm.faults.refuse_loading = True
    publish(engine, 3)
    eventually(lambda: "default@3" in proxy.client.get("/ready").text)
    assert version_of(proxy) == "0"
    assert proxy.chat(model="default@5").status_code == 404
    vllm.faults.refuse_loading = False
    eventually(lambda: version_of(proxy) == "3")


def test_a_policy_on_another_base_neither_blocks_readiness_nor_is_answered_by_this_one(
    start_proxy: StartProxy, vllm: FakeVllm, engine: Engine
) -> None:
    """I8: SLIPSTREAM_POLICY and the base were changed, and vLLM came up after the proxy."""
    with engine.begin() as connection:
        old = ensure_policy(connection, name="old", base_model="other-base")
        move_live(connection, old.id, 3)
    vllm.stop()
    proxy = start_proxy(awaits_ready=False)
    eventually(lambda: proxy.chat(model="old").status_code == 404)
    vllm.start()
    eventually(lambda: proxy.client.get("/ready").status_code == 200)
    assert proxy.chat(model="gpt-4o").json()["model"] == "default@0"
    for name in ("old", "old@3"):
        refused = proxy.chat(model=name)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
        assert "another base model" in refused.json()["error"]["message"]


def test_i8_a_load_that_hangs_does_not_lengthen_the_wait(start_proxy: StartProxy, vllm: FakeVllm) -> None:
    """I8: a bounded wait, then a 503, however long vLLM takes to load."""
    proxy = start_proxy(upstream_wait_seconds=0.5)
    vllm.faults.loading_seconds = 30
    began = time.monotonic()
    response = proxy.chat(model="default@7")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "upstream_unavailable")
    assert time.monotonic() - began < 5


def test_calls_that_wait_for_a_version_do_not_drive_each_other_to_load_it(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    """vLLM is short of memory: each call tries once, and again only when something changed."""
    proxy = start_proxy(upstream_wait_seconds=1.5, watch_seconds=30)
    vllm.faults.refuse_loading, vllm.faults.loading_status = True, 500
    calls = [threading.Thread(target=proxy.chat, kwargs={"model": "default@7"}) for _ in range(4)]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert sum(seen.path == "/v1/load_lora_adapter" for seen in vllm.seen) <= 8


@pytest.mark.parametrize("path", ["/v1/embeddings"])
def test_a_route_that_the_server_lacks_is_no_lost_adapter(
    start_proxy: StartProxy, vllm: FakeVllm, engine: Engine, path: str
) -> None:
    """A server that generates only answers 404 there: said once, in the client's shape, and the adapter stays."""
    proxy = start_proxy()
    publish(engine, 1)
    eventually(lambda: version_of(proxy) == "1")
    body = {"model": "x", "input": [[1, 2]], "encoding_format": "base64", "messages": []}
    response = proxy.client.post(path, json=body)
    assert response.status_code == 404
    assert f"does not answer POST {path}" in response.json()["error"]["message"]
    assert len([seen for seen in vllm.seen if seen.path == path]) == 1
    assert vllm.adapters == {"default@1": vllm.adapters["default@1"]}
