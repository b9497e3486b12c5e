"""Models of other providers: relayed through LiteLLM, kept as teacher data, with the operator's keys and nobody else's."""

from functools import partial

import pytest
from openai import OpenAI, RateLimitError

from tests.fakes.providers import FakeProvider
from tests.proxy.external.conftest import ANTHROPIC_KEY, OPENAI_KEY, events_of
from tests.proxy.running import RunningProxy, eventually

MESSAGES = [{"role": "user", "content": "2+2"}]


def test_an_external_chat_is_relayed_and_kept_as_teacher_data(
    external_proxy: RunningProxy, provider: FakeProvider
) -> None:
    reply = external_proxy.chat(
        {"authorization": "Bearer sk-the-clients-own-key"},
        model="openai/gpt-4o",
        seed=3,
        metadata={"session_id": "s"},
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
    (row,) = external_proxy.exchanges()
    assert (row.status, row.is_trainable, row.untrainable_reason) == ("completed", False, "external_model")
    assert (row.version, row.answered_model, row.requested_model) == (
        None,
        "gpt-4o-2026-01-01",
        "openai/gpt-4o",
    )
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


def test_a_talk_with_an_external_model_is_one_trajectory_also_where_the_policy_answers_next(
    external_proxy: RunningProxy,
) -> None:
    first = external_proxy.chat(model="openai/gpt-4o", messages=MESSAGES)
    messages = [*MESSAGES, {"role": "assistant", "content": "Four."}, {"role": "user", "content": "Sure?"}]
    second = external_proxy.chat(model="default", messages=messages)
    assert second.headers["x-trajectory-id"] == first.headers["x-trajectory-id"]
    rows = external_proxy.exchanges(2)
    assert [(row.version, row.is_trainable) for row in rows] == [(None, False), (0, True)]


def test_the_openai_sdk_reads_a_stream_and_a_refusal(
    external_proxy: RunningProxy, provider: FakeProvider
) -> None:
    with OpenAI(base_url=f"{external_proxy.url}/v1", api_key="sk-x", max_retries=0) as client:
        ask = partial(client.chat.completions.create, model="openai/gpt-4o", messages=MESSAGES, stream=True)
        text = "".join(c.choices[0].delta.content or "" for c in ask())
        assert text == "Four."
        provider.error = (429, {"retry-after": "1"}, {"error": {"message": "slow down", "code": "x"}})
        with pytest.raises(RateLimitError, match="slow down"):
            ask()


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
        "/v1/completions",
        json={"model": "openai/gpt-3.5-turbo-instruct", "prompt": "2+2", "stream": is_streamed},
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


def test_a_client_that_hangs_up_closes_the_providers_stream(
    external_proxy: RunningProxy, provider: FakeProvider
) -> None:
    external_proxy.chat(model="openai/gpt-4o")
    provider.event_seconds = 1
    body = {"model": "openai/gpt-4o", "messages": MESSAGES, "stream": True}
    with external_proxy.client.stream("POST", "/v1/chat/completions", json=body) as reply:
        next(reply.iter_bytes())
    eventually(lambda: provider.num_aborted == 1, 4)
    assert [row.status for row in external_proxy.exchanges(2)] == ["completed", "cancelled"]
