"""The real openai SDK, which knows nothing of us but its base URL."""

import openai
import pytest
from openai import OpenAI

from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy


@pytest.fixture
def client(proxy: RunningProxy) -> OpenAI:
    return OpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0)


MESSAGES = [{"role": "user", "content": "Hi"}]


def test_the_sdk_reads_whole_replies(client: OpenAI, proxy: RunningProxy) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="gpt-4o", messages=MESSAGES, n=2, max_tokens=3
    )
    reply = raw.parse()
    assert (reply.model, len(reply.choices), reply.choices[0].logprobs) == ("default@0", 2, None)
    assert not reply.choices[0].model_extra or "token_ids" not in reply.choices[0].model_extra
    assert reply.usage is not None
    assert len(raw.headers["x-trajectory-id"].split(", ")) == 2
    assert len(proxy.exchanges(2)) == 2


@pytest.mark.parametrize("wants_usage", [False, True])
def test_the_sdk_reads_streams_to_their_end(client: OpenAI, proxy: RunningProxy, wants_usage: bool) -> None:
    """B079: the SDK closes right at [DONE], and the row is completed."""
    options = {"include_usage": True} if wants_usage else openai.NOT_GIVEN
    with client.chat.completions.create(
        model="gpt-4o", messages=MESSAGES, stream=True, max_tokens=3, stream_options=options
    ) as stream:
        chunks = list(stream)
    assert any(chunk.usage for chunk in chunks) is wants_usage
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    [row] = proxy.exchanges()
    assert (row.status, row.completion_text, row.is_delivered) == ("completed", text, True)
    assert row.client_name.startswith("OpenAI/Python")


def test_the_sdk_raises_its_own_errors(client: OpenAI, vllm: FakeVllm) -> None:
    """B016: a failure in mid-stream is an APIError of the SDK."""
    with pytest.raises(openai.BadRequestError, match="greedy"):
        client.chat.completions.create(model="gpt-4o", messages=MESSAGES, n=2, temperature=0)
    with pytest.raises(openai.NotFoundError, match="responses"):
        client.responses.create(model="gpt-4o", input="Hi")
    vllm.faults.die_after_events = 2
    with pytest.raises(openai.APIError, match="broke off"):
        list(client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True))


def test_the_sdk_lists_models(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["default", "default@base", "default@0"]
    assert client.models.retrieve("default").id == "default"


def test_a_session_can_be_the_base_url(proxy: RunningProxy) -> None:
    client = OpenAI(base_url=f"{proxy.url}/sessions/agent-1/v1", api_key="any", max_retries=0)
    for _ in range(2):
        client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert len({row.trajectory_id for row in proxy.exchanges(2)}) == 1
