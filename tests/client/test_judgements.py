"""Judgements reach the ledger once, whatever names the target and however often the answer is lost."""

import asyncio
import gc
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from openai import OpenAI

from slipstream import AsyncClient, Client
from tests.client.conftest import NOWHERE, Events
from tests.fakes.middleman import Middleman, OwnAnswer
from tests.proxy.running import RunningProxy, eventually


def test_a_reward_is_recorded_with_what_was_said(client: Client, events: Events, name: str) -> None:
    seen_at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    result = client.reward(name, 0.5, comment="fine", source="judge-7", observed_at=seen_at, id=f"own-{name}")
    assert (result.ok, bool(result), result.status, result.id) == (True, True, "early", f"own-{name}")
    [event] = events(name)
    assert (event.value, event.comment, event.source, event.observed_at) == (0.5, "fine", "judge-7", seen_at)


def test_the_same_id_again_is_the_same_post_and_without_one_it_is_another(
    client: Client, events: Events, name: str
) -> None:
    first = client.reward(name, 1)
    assert client.reward(name, 1, id=first.id).ok
    assert client.reward(name, 0, id=first.id).http_status == 409
    assert client.reward(name, 0.25).ok
    assert [event.value for event in events(name)] == [1.0, 0.25]


def test_a_reply_of_the_openai_sdk_is_a_target(
    client: Client, proxy: RunningProxy, middleman: Middleman
) -> None:
    sdk = OpenAI(base_url=f"{middleman.url}/v1", api_key="any")
    reply = sdk.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hi"}])
    eventually(lambda: proxy.rows("SELECT 1 FROM exchanges WHERE id = :id", id=_call_of(reply.id)))
    result = client.reward(reply, True)
    assert (result.status, result.trajectory_id is not None) == ("recorded", True)
    assert result.exchange_id == str(_call_of(reply.id))
    sdk.close()


def _call_of(reply_id: str) -> UUID:
    return UUID(reply_id.removeprefix("chatcmpl-"))


class Message:
    """As LangChain's: an id of its own, and the reply's beside it."""

    def __init__(self, own_id: str, reply_id: str) -> None:
        self.id, self.response_metadata = own_id, {"id": reply_id}


def test_what_frameworks_make_of_a_reply_is_a_target(client: Client, events: Events, name: str) -> None:
    for target in (name, {"id": name}, Message("lc_run--1", name)):
        assert client.reward(target, 0.5).ok
    assert len(events(name)) == 3
    number = uuid4()
    assert client.reward(number, 0.5).ok
    assert len(events(str(number))) == 1


@pytest.mark.parametrize("awkward", ["s3://bucket/run 7", "a?b#c%2F", "ünï/", "..", "a//b/"])
def test_an_id_with_any_characters_arrives_as_it_is(
    client: Client, events: Events, name: str, awkward: str
) -> None:
    target = f"{name}{awkward}"
    assert client.reward(target, 0.5).ok
    assert client.rewards([(target, 0.25)])[0].ok
    assert [event.value for event in events(target)] == [0.5, 0.25]


def test_numbers_of_numpy_are_numbers(client: Client, events: Events, name: str) -> None:
    for value in (np.float32(0.5), np.float64(0.25), np.int64(1), np.bool_(True)):
        assert client.reward(name, value).ok
    assert [event.value for event in events(name)] == [0.5, 0.25, 1.0, 1.0]


def test_a_comment_is_recorded_beside_the_reward(client: Client, events: Events, name: str) -> None:
    assert client.comment(name, "It was slow.").ok
    [event] = events(name)
    assert (event.metric, event.value, event.content) == ("comment", None, "It was slow.")


def test_a_demonstration_is_a_text_or_messages(client: Client, events: Events, name: str) -> None:
    messages = [{"role": "assistant", "content": "Paris"}]
    assert client.demonstrate(name, "Paris").ok
    assert client.demonstrate(name, messages, comment="better", source="editor").ok
    assert [event.content for event in events(name)] == ["Paris", messages]
    assert {event.metric for event in events(name)} == {"demonstration"}


def test_what_does_not_count_is_said(client: Client, name: str) -> None:
    result = client.reward(name, 0.5, metric="never-declared")
    assert (result.ok, result.is_counted) == (True, False)
    assert result.note


def test_a_comparison_is_two_events_however_often_its_answer_is_lost_and_can_be_taken_back(
    client: Client, events: Events, name: str, middleman: Middleman
) -> None:
    middleman.num_lost = 1
    compared = client.compare(name, (f"{name}-2", 1), comment="shorter")
    assert compared.ok
    assert [event.value for event in events(name)] == [1.0]
    assert [event.value for event in events(f"{name}-2#1")] == [0.0]
    assert client.retract(compared).ok
    assert [event.is_retraction for event in events(name)] == [False, True]


def test_a_retraction_takes_back_what_its_source_said_once(
    client: Client, events: Events, name: str, middleman: Middleman
) -> None:
    client.reward(name, 0.5, source="a")
    middleman.num_lost = 1
    assert client.retract(name, source="a").ok
    assert [(event.source, event.is_retraction) for event in events(name)] == [("a", False), ("a", True)]


def test_partial_and_whole_are_said(client: Client, events: Events, name: str) -> None:
    assert client.reward(name, 0.5, final=False, scope="trajectory").ok
    [event] = events(name)
    assert (event.is_final, event.is_whole) == (False, True)


def test_an_explanation_is_found_in_the_data(client: Client, proxy: RunningProxy, name: str) -> None:
    proxy.chat({"X-Trajectory-Id": name})
    eventually(lambda: proxy.rows("SELECT 1 FROM trajectories WHERE external_id = :name", name=name))
    result = client.explain(name)
    assert (result.status, result.data["object"]) == ("found", "explanation")
    assert client.explain(f"{name}-unknown").http_status == 404


@pytest.mark.parametrize("num_lost", [1, 2])
def test_a_lost_answer_is_asked_for_again_and_makes_one_event(
    client: Client, events: Events, name: str, middleman: Middleman, num_lost: int
) -> None:
    """I5: the post was committed, its answer was not read."""
    middleman.num_lost = num_lost
    assert client.reward(name, 0.5).ok
    assert len({seen.body for seen in middleman.seen}) == 1
    assert len(middleman.seen) == num_lost + 1
    assert len(events(name)) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_server_in_trouble_is_asked_again_after_as_long_as_it_says(
    client: Client, events: Events, name: str, middleman: Middleman, status: int
) -> None:
    middleman.own_answers = [OwnAnswer(status, b"<html>", {"retry-after": "0"})]
    assert client.reward(name, 0.5).status == "early"
    assert len(events(name)) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 302])
def test_what_was_refused_is_not_asked_again(
    client: Client, name: str, middleman: Middleman, status: int
) -> None:
    error = {"error": {"message": "No.", "type": "t", "param": None, "code": None}}
    middleman.own_answers = [OwnAnswer(status, json.dumps(error).encode(), {"location": "/"})]
    result = client.reward(name, 0.5)
    assert (result.ok, result.status, result.error, result.http_status) == (False, "refused", "No.", status)
    assert len(middleman.seen) == 1


def test_a_list_is_answered_item_by_item_in_chunks(
    client: Client, name: str, middleman: Middleman, proxy: RunningProxy
) -> None:
    """1,203 items with two that are wrong here, and one that the proxy refuses: 3 lists."""
    items: list[Any] = [(f"{name}-{n}", n % 2 == 0) for n in range(1200)]
    items[7:7] = [{"target": f"{name}-x", "reward": 99}, {"reward": 1}, (name, float("nan"))]
    results = client.rewards(item for item in items)
    assert [n for n, result in enumerate(results) if not result.ok] == [7, 8, 9]
    assert [result.status for result in results[6:11]] == ["early", "refused", "invalid", "invalid", "early"]
    assert results[7].http_status == 422
    assert [len(json.loads(seen.body)) for seen in middleman.seen] == [500, 500, 201]
    count = "SELECT count(*) FROM reward_events WHERE starts_with(target, :name)"
    assert proxy.rows(count, name=name)[0][0] == 1200


def test_a_list_whose_answer_is_lost_makes_each_event_once(
    client: Client, name: str, middleman: Middleman, proxy: RunningProxy
) -> None:
    middleman.num_lost = 1
    results = client.rewards([{"target": f"{name}-{n}", "reward": 0.5} for n in range(30)])
    assert all(results)
    count = "SELECT count(*) FROM reward_events WHERE starts_with(target, :name)"
    assert proxy.rows(count, name=name)[0][0] == 30


def test_lists_are_cut_by_size_too(client: Client, name: str, middleman: Middleman) -> None:
    """30 comments of 90 KB: lists of 11 within a megabyte."""
    text = "x" * 90_000
    results = client.rewards([{"target": f"{name}-{n}", "reward": 0, "comment": text} for n in range(30)])
    assert all(results)
    assert [len(json.loads(seen.body)) for seen in middleman.seen] == [11, 11, 8]


def test_no_items_are_no_request(client: Client, middleman: Middleman) -> None:
    assert client.rewards([]) == []
    assert middleman.seen == []


async def test_the_asynchronous_client_does_the_same(events: Events, name: str, middleman: Middleman) -> None:
    middleman.num_lost = 1
    async with AsyncClient() as client:
        assert (await client.reward(name, 0.5)).ok
        assert (await client.comment(name, "fine")).ok
        many = await client.rewards([(f"{name}-{n}", 1) for n in range(3)])
        assert [result.status for result in many] == ["early"] * 3
        assert (await client.reward(name, 99)).status == "refused"
    assert [event.metric for event in events(name)] == ["reward", "comment"]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of connections of a loop that is gone
def test_an_asynchronous_client_outlives_its_event_loop(
    events: Events, name: str, middleman: Middleman
) -> None:
    client = AsyncClient(max_retries=0)
    for value in (0.5, 0.25):
        assert asyncio.run(client.reward(name, value)).ok
    asyncio.run(client.close())
    gc.collect()
    assert len(events(name)) == 2


def test_the_address_and_the_key_come_from_the_environment_of_the_openai_sdk(
    monkeypatch: pytest.MonkeyPatch, client_of: Callable[..., Client], middleman: Middleman, name: str
) -> None:
    monkeypatch.delenv("SLIPSTREAM_URL")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{middleman.url}/v1/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    assert client_of().reward(name, 1).ok
    assert middleman.seen[0].headers["authorization"] == "Bearer sk-mine"
    monkeypatch.setenv("SLIPSTREAM_URL", NOWHERE)
    assert client_of(max_retries=0).reward(name, 1).status == "unreachable"
    assert client_of(f"{middleman.url}/v1", "sk-given").reward(name, 1).ok
    assert middleman.seen[1].headers["authorization"] == "Bearer sk-given"


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "//", "/sessions/run-7/v1"])
def test_an_address_may_be_any_of_the_proxy_s(client_of: Callable[..., Client], path: str) -> None:
    assert client_of(f"http://host:4000{path}").address.url == "http://host:4000"
    assert client_of(f"http://host:4000/prefix{path}").address.url == "http://host:4000/prefix"


def test_a_key_is_never_shown(client_of: Callable[..., Client]) -> None:
    assert "sk-secret" not in repr(client_of(api_key="sk-secret").address)
