"""Untagged calls find their conversation: in real proxies that share nothing but a Valkey and the ledger."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from sqlalchemy import Engine

from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy, proxy_process, settings_for
from tests.proxy.talks import reply_of, then, trajectory_of


@pytest.fixture
def processes(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path, valkey_url: str
) -> Iterator[tuple[RunningProxy, RunningProxy]]:
    with ExitStack() as stack:
        given = [
            settings_for(database_url, vllm.url, tmp_path, spool=tmp_path / name, redis_url=valkey_url)
            for name in "ab"
        ]
        a, b = (stack.enter_context(proxy_process(one, engine))[0] for one in given)
        yield a, b


def test_a_talk_goes_on_at_another_process_at_once(
    processes: tuple[RunningProxy, RunningProxy], question: dict[str, Any]
) -> None:
    a, b = processes
    messages, seen, streams = [question], set(), [False, True, True, False]
    for proxy, stream in zip((a, b, a, b), streams, strict=True):
        response = proxy.chat(messages=messages, stream=stream)
        seen.add(trajectory_of(response))
        messages = then(*messages, reply_of(response))
    assert {str(row.trajectory_id) for row in a.exchanges(4)} == seen
    assert len(seen) == 1


def test_each_choice_can_go_on(two: tuple[RunningProxy, RunningProxy], question: dict[str, Any]) -> None:
    a, b = two
    first = a.chat(messages=[question], n=3)
    ids = trajectory_of(first).split(", ")
    for index in (2, 0, 1):
        following = b.chat(messages=then(question, reply_of(first, index)), stream=index == 0)
        assert trajectory_of(following) == ids[index]
    by_trajectory = [str(row.trajectory_id) for row in a.exchanges(6)]
    assert sorted(by_trajectory) == sorted(ids * 2)


def test_of_several_next_turns_the_first_goes_on_and_the_others_begin(
    two: tuple[RunningProxy, RunningProxy], question: dict[str, Any]
) -> None:
    a, b = two
    first = a.chat(messages=[question])
    second = b.chat(messages=then(question, reply_of(first)), n=2)
    ids = trajectory_of(second).split(", ")
    assert ids[0] == trajectory_of(first) != ids[1]
    third = a.chat(messages=then(*then(question, reply_of(first)), reply_of(second, 1)))
    assert trajectory_of(third) == ids[1]
    rows = a.exchanges(4)  # each stands in the trajectory that its reply named
    assert sorted(str(row.trajectory_id) for row in rows) == sorted(ids * 2)


def test_an_answer_made_anew_begins_a_trajectory(proxy: RunningProxy, question: dict[str, Any]) -> None:
    first = proxy.chat(messages=[question])
    following = then(question, reply_of(first))
    second, anew = proxy.chat(messages=following, seed=1), proxy.chat(messages=following, seed=2)
    assert trajectory_of(second) == trajectory_of(first)
    assert trajectory_of(anew) not in {trajectory_of(first), ""}
    third = proxy.chat(messages=then(*following, reply_of(anew)))
    assert trajectory_of(third) == trajectory_of(anew)


def test_tool_calls_go_on_with_their_results(
    two: tuple[RunningProxy, RunningProxy], vllm: FakeVllm, question: dict[str, Any]
) -> None:
    """As an agent does with the SDK: the message comes back as model_dump() has it, and its result behind it."""
    function = {"name": "weather", "arguments": '{"city":"Paris"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "hm", "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "base-model", "choices": [choice]}
    vllm.faults.raw_body = json.dumps(body).encode()
    clients = [OpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0) for proxy in two]
    messages: list[Any] = [question]
    seen = set()
    for k in range(4):
        raw = clients[k % 2].chat.completions.with_raw_response.create(model="gpt-4o", messages=messages)
        seen.add(raw.headers["x-trajectory-id"])
        answer = raw.parse().choices[0].message
        messages += [answer.model_dump() if k % 2 else answer]
        messages += [{"role": "tool", "tool_call_id": "call_1", "content": str(k)}]
    assert len(seen) == 1


def test_users_whose_talks_are_equal_stay_apart(proxy: RunningProxy) -> None:
    said = {"role": "user", "content": "Hi"}
    ids = {}
    for user in ("ann", "bob"):
        ids[user] = trajectory_of(proxy.chat(messages=[said], user=user, seed=1))
    answer = reply_of(proxy.chat(messages=[said], user="eve", seed=1))
    for user in ("ann", "bob"):
        assert trajectory_of(proxy.chat(messages=then(said, answer), user=user)) == ids[user]
    assert trajectory_of(proxy.chat(messages=then(said, answer), user="bob")) not in ids.values()


def test_a_named_call_neither_takes_nor_tells_a_turn(proxy: RunningProxy, question: dict[str, Any]) -> None:
    first = proxy.chat(messages=[question])
    following = then(question, reply_of(first))
    named = proxy.chat({"X-Session-Id": "agent-1"}, messages=following)
    assert trajectory_of(named) == "agent-1"
    assert trajectory_of(proxy.chat(messages=following, seed=4)) == trajectory_of(first)
    unknown = proxy.chat(messages=then(*following, reply_of(named)))
    assert trajectory_of(unknown) not in {"agent-1", trajectory_of(first)}


def test_a_side_turn_belongs_to_the_conversation_and_leaves_its_turn(
    two: tuple[RunningProxy, RunningProxy], question: dict[str, Any]
) -> None:
    a, b = two
    first = a.chat(messages=[question])
    following = then(question, reply_of(first))
    side = b.chat({"X-Turn-Type": "side"}, messages=then(question, reply_of(first), text="A title?"))
    assert trajectory_of(side) == trajectory_of(first) == trajectory_of(b.chat(messages=following))


def test_what_is_not_captured_is_not_continued(proxy: RunningProxy, question: dict[str, Any]) -> None:
    first = proxy.chat({"X-Slipstream-Capture": "off"}, messages=[question])
    second = proxy.chat(messages=then(question, reply_of(first)))
    assert trajectory_of(second) != trajectory_of(first)
