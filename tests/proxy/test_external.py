"""Models of other providers: relayed through LiteLLM, kept as teacher data, with the operator's keys and nobody else's."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from tests.fakes.providers import FakeProvider, running_fake_provider
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import ROOT, RunningProxy, eventually

OPENAI_KEY = "sk-canary-openai-5d41402abc4b2a76"
ANTHROPIC_KEY = "sk-ant-canary-7d793037a0760186"
MESSAGES = [{"role": "user", "content": "2+2"}]


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running_fake_provider() as fake:
        yield fake


@pytest.fixture
def external_proxy(
    start_proxy: StartProxy, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> RunningProxy:
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", ANTHROPIC_KEY)
    return start_proxy(
        external_providers="openai,anthropic",
        external_base_urls=f"openai={provider.url}/v1,anthropic={provider.url}",
    )


def events_of(text: str) -> list[Any]:
    datas = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]


def children() -> list[psutil.Process]:
    return [c for c in psutil.Process().children() if "proxy.external.child" in " ".join(c.cmdline())]


def test_an_external_chat_is_relayed_and_kept_as_teacher_data(
    external_proxy: RunningProxy, provider: FakeProvider, vllm: FakeVllm
) -> None:
    reply = external_proxy.chat(
        {"authorization": "Bearer sk-the-clients-own-key"}, model="openai/gpt-4o", seed=3, metadata={"session_id": "s"}
    )
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert body["model"] == "gpt-4o-2026-01-01"
    assert body["choices"][0]["message"] == {"content": "Four.", "role": "assistant", "annotations": []}
    assert body["usage"]["completion_tokens"] == 2
    assert reply.headers["x-captured"] == "true"
    assert reply.headers["x-trajectory-id"] == "s"
    assert "x-model-version" not in reply.headers
    seen = provider.seen[0]
    assert seen.body == {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "seed": 3}
    assert seen.headers["Authorization"] == f"Bearer {OPENAI_KEY}"
    assert "sk-the-clients-own-key" not in str(seen.headers)
    assert vllm.chats() == []
    (row,) = external_proxy.exchanges()
    assert (row.status, row.is_trainable, row.untrainable_reason) == ("completed", False, "external_model")
    assert (row.version, row.answered_model, row.requested_model) == (None, "gpt-4o-2026-01-01", "openai/gpt-4o")
    assert (row.completion_text, row.finish_reason, row.num_prompt_tokens) == ("Four.", "stop", 9)
    assert external_proxy.metric("slipstream_version_mismatches_total") == 0


def test_a_reward_finds_the_exchange_by_the_replys_id(external_proxy: RunningProxy) -> None:
    reply = external_proxy.chat(model="openai/gpt-4o")
    (row,) = external_proxy.exchanges()
    posted = external_proxy.client.post(f"/v1/trajectories/{reply.json()['id']}/reward", json={"reward": 1})
    assert posted.json()["exchange_id"] == str(row.id)
    assert row.trajectory_id is not None
    (trajectory,) = external_proxy.rows("SELECT group_id, last_version, reward FROM v1.trajectories")
    assert tuple(trajectory) == (None, None, 1.0)


@pytest.mark.parametrize("model", ["openai/gpt-4o", "anthropic/claude-sonnet-4"])
def test_a_streamed_chat_comes_as_openai_chunks_and_ends_with_done(
    external_proxy: RunningProxy, model: str
) -> None:
    reply = external_proxy.chat(model=model, stream=True)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *chunks, done = events_of(reply.text)
    assert done == "[DONE]"
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == "Four."
    assert [c["choices"][0]["finish_reason"] for c in chunks][-1] == "stop"
    assert all("usage" not in c for c in chunks)
    assert {c["id"] for c in chunks} == {chunks[0]["id"]}
    (row,) = external_proxy.exchanges()
    assert (row.status, row.completion_text, row.finish_reason) == ("completed", "Four.", "stop")


def test_usage_comes_in_a_stream_only_for_those_who_ask(
    external_proxy: RunningProxy, provider: FakeProvider
) -> None:
    reply = external_proxy.chat(model="openai/gpt-4o", stream=True, stream_options={"include_usage": True})
    *_, usage, _ = events_of(reply.text)
    assert (usage["choices"], usage["usage"]["prompt_tokens"]) == ([], 9)
    external_proxy.chat(model="openai/gpt-4o", stream=True)
    assert "stream_options" not in provider.seen[-1].body


def test_tool_calls_and_choices_are_kept_apart(external_proxy: RunningProxy) -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    reply = external_proxy.chat(model="openai/gpt-4o", tools=tools, n=2)
    first, second = reply.json()["choices"]
    assert first["message"]["tool_calls"][0]["function"]["arguments"] == '{"a": 2,  "b": 2}'
    assert (first["index"], second["index"]) == (0, 1)
    rows = external_proxy.exchanges(2)
    assert [row.choice_index for row in rows] == [0, 1]
    assert len({row.trajectory_id for row in rows}) == 2


def test_anthropics_models_answer_openai_and_anthropic_requests(
    external_proxy: RunningProxy, provider: FakeProvider
) -> None:
    chat = external_proxy.chat(model="anthropic/claude-sonnet-4", max_tokens=9).json()
    assert chat["choices"][0]["message"]["content"] == "Four."
    body = {"model": "anthropic/claude-sonnet-4", "max_tokens": 9, "messages": MESSAGES}
    message = external_proxy.client.post("/v1/messages", json=body).json()
    assert message["content"] == [{"type": "text", "text": "Four."}]
    assert message["model"] == "claude-sonnet-4-20260101"
    assert [seen.headers["x-api-key"] for seen in provider.seen] == [ANTHROPIC_KEY] * 2
    texts = [row.completion_text for row in external_proxy.exchanges(2)]
    assert texts == ["Four.", "Four."]
    streamed = external_proxy.client.post("/v1/messages", json={**body, "stream": True})
    assert streamed.status_code == 400
    assert "stream" in streamed.json()["error"]["message"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_responses_and_completions_are_answered(external_proxy: RunningProxy, *, is_streamed: bool) -> None:
    client = external_proxy.client
    asked = {"model": "openai/gpt-4o", "input": "2+2", "stream": is_streamed}
    response = client.post("/v1/responses", json=asked)
    completion = client.post(
        "/v1/completions", json={"model": "openai/gpt-3.5-turbo-instruct", "prompt": "2+2", "stream": is_streamed}
    )
    assert (response.status_code, completion.status_code) == (200, 200)
    if is_streamed:
        last = events_of(response.text)[-1]
        assert last["type"] == "response.completed"
        assert "event: response.completed\n" in response.text
        assert "".join(e["choices"][0]["text"] or "" for e in events_of(completion.text)[:-1]) == "Four."
    else:
        assert response.json()["output"][0]["content"][0]["text"] == "Four."
        assert completion.json()["choices"][0]["text"] == "Four."
    assert [row.completion_text for row in external_proxy.exchanges(2)] == ["Four.", "Four."]


def test_embeddings_are_answered_and_not_kept(external_proxy: RunningProxy) -> None:
    body = {"model": "openai/text-embedding-3-small", "input": ["a"]}
    reply = external_proxy.client.post("/v1/embeddings", json=body)
    assert reply.json()["data"][0]["embedding"] == [0.25, -0.5]
    assert reply.headers["x-captured"] == "false"


def test_without_the_setting_a_providers_name_goes_to_the_default_policy(
    proxy: RunningProxy, provider: FakeProvider
) -> None:
    reply = proxy.chat(model="openai/gpt-4o")
    assert reply.json()["model"] == "default@0"
    assert provider.seen == []


def test_names_of_a_policy_and_of_its_base_stay_theirs(start_proxy: StartProxy, vllm: FakeVllm) -> None:
    vllm.base_model = "openai/gpt-oss-20b"
    proxy = start_proxy(
        base_model="openai/gpt-oss-20b", policy="anthropic/mine", external_providers="openai,anthropic"
    )
    for name in ("openai/gpt-oss-20b", "anthropic/mine", "anthropic/mine@base", "Qwen/Qwen3-0.6B", "gpt-4o"):
        assert proxy.chat(model=name).json()["model"] == "anthropic/mine@0"


def test_nothing_of_litellm_is_there_before_the_first_external_call() -> None:
    code = (
        "import sys, proxy.app, proxy.server, proxy.external.dispatch; "
        "sys.exit(any(name.split('.')[0] in ('litellm', 'openai') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_calls_that_come_together_start_one_child_and_it_ends_with_the_proxy(
    external_proxy: RunningProxy,
) -> None:
    assert children() == []
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda _: external_proxy.chat(model="openai/gpt-4o"), range(4)))
    assert {reply.status_code for reply in replies} == {200}
    (child,) = children()
    assert "DATABASE_URL" not in child.environ()
    child.kill()
    eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert external_proxy.chat(model="openai/gpt-4o").status_code == 200


def test_other_calls_are_answered_while_litellm_is_imported(external_proxy: RunningProxy) -> None:
    with ThreadPoolExecutor(1) as threads:
        external = threads.submit(external_proxy.chat, model="openai/gpt-4o")
        eventually(children)
        began = time.monotonic()
        external_proxy.chat()
        assert not external.done()
        assert time.monotonic() - began < 2
        assert external.result().status_code == 200


def test_a_client_that_hangs_up_closes_the_providers_stream(
    external_proxy: RunningProxy, provider: FakeProvider
) -> None:
    external_proxy.chat(model="openai/gpt-4o")
    provider.event_seconds = 0.3
    body = {"model": "openai/gpt-4o", "messages": MESSAGES, "stream": True}
    with external_proxy.client.stream("POST", "/v1/chat/completions", json=body) as reply:
        next(reply.iter_bytes())
    eventually(lambda: provider.num_aborted == 1, 3)
    assert [row.status for row in external_proxy.exchanges(2)] == ["completed", "cancelled"]
