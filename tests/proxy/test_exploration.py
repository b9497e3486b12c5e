"""A share of greedy calls is sampled at a stated temperature: said in the reply and on the row, and in nothing else."""

import json
from typing import Any
from uuid import UUID

import pytest

from ledger.identifiers import new_call_id
from ledger.records import Attribution
from ledger.vocabulary import IdentifiedBy
from proxy.exploration import is_chosen
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy
from tests.proxy.talks import reply_of, then

MESSAGES = [{"role": "user", "content": "Hi"}]
RETRY = {"x-stainless-retry-count": "1"}
CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"


@pytest.fixture
def exploring(start_proxy: StartProxy) -> RunningProxy:
    return start_proxy(explore_share=1, explore_temperature=0.7)


def test_a_greedy_call_is_sampled_and_says_so(exploring: RunningProxy, vllm: FakeVllm) -> None:
    reply = exploring.chat(temperature=0, top_p=0.1, top_k=1, min_p=0.5, seed=7, max_tokens=3)
    assert (reply.status_code, reply.headers["x-explored"]) == (200, "0.7")
    sent = json.loads(vllm.chats()[0].body)
    assert sent["temperature"] == 0.7
    assert not {"top_p", "top_k", "min_p", "seed"} & sent.keys()  # heeded at 0.7, and not at 0
    row = exploring.exchanges()[0]
    assert (row.is_explored, row.temperature, row.top_p, row.top_k, row.seed) == (True, 0.7, None, None, None)
    assert (row.is_trainable, row.max_tokens) == (True, 3)
    asked = {name: row.request[name] for name in ("temperature", "top_p", "top_k", "min_p", "seed")}
    assert asked == {"temperature": 0, "top_p": 0.1, "top_k": 1, "min_p": 0.5, "seed": 7}
    assert exploring.rows("SELECT kind FROM groups") == [("prompt",)]
    assert exploring.metric('slipstream_greedy_calls_total{sampling="explored"}') == 1


def test_it_is_off_by_default(proxy: RunningProxy, vllm: FakeVllm) -> None:
    reply = proxy.chat(temperature=0)
    assert "x-explored" not in reply.headers
    assert json.loads(vllm.chats()[0].body)["temperature"] == 0
    row = proxy.exchanges()[0]
    assert (row.is_explored, row.temperature, row.untrainable_reason) == (False, 0, "greedy")
    assert proxy.metric('slipstream_greedy_calls_total{sampling="greedy"}') == 1


M = '"messages":[{"role":"user","content":"temperature"}]'


SENT_AS = [  # `+` is what capture adds
    ('{%s, "temperature" : 0 ,"x":[ 1.0e0 ]}', '{%s, "temperature" : 0.7 ,"x":[ 1.0e0 ],+}'),
    ('{"temperature":0.0,%s}', '{"temperature":0.7,%s,+}'),
    ('{"temperature":-0,%s}', '{"temperature":0.7,%s,+}'),
    ('{"temperature":-0.0,%s}', '{"temperature":0.7,%s,+}'),
    ('{"temperature":0e5,%s}', '{"temperature":0.7,%s,+}'),
    ('{"temperature":0E-3,%s}', '{"temperature":0.7,%s,+}'),
    ('{"temperature":"0",%s}', '{"temperature":0.7,%s,+}'),
    ('{"temperature":" 0.0 ",%s}', '{"temperature":0.7,%s,+}'),
    ('{"temperature":false,%s}', '{"temperature":0.7,%s,+}'),
    (r'{"temperatur\u0065":0,%s}', r'{"temperatur\u0065":0.7,%s,+}'),
    ('{"temperature":1,%s,"temperature":0}', '{"temperature":0.7,%s,"temperature":0.7,+}'),
    (r'{"temperatur\u0065":0,%s,"temperature":0}', r'{"temperatur\u0065":0.7,%s,"temperature":0.7,+}'),
    ('{"top_k":1,%s}', '{%s,+,"temperature":0.7}'),
    ('{"top_k":9,"seed":3,"temperature":0,%s,"top_p":1}', '{"temperature":0.7,%s,+}'),
    (r'{"top_\u006b":1,"temperature":1,%s }', '{"temperature":0.7,%s,+ }'),
    ('{"temperature":0,%s,"metadata":{"temperature":0}}', '{"temperature":0.7,%s,"metadata":{"temperature":0},+}'),
    ('{"temperature":0,%s,"n":1}', '{"temperature":0.7,%s,"n":1,+}'),
    ('{"temperature":0,%s,"e":"\\ud83d"}', '{"temperature":0.7,%s,"e":"\\ud83d",+}'),
    # not greedy, or none of ours to change
    ('{"temperature":1,%s}', '{"temperature":1,%s,+}'),
    ('{"temperature":0,%s,"temperature":1}', '{"temperature":0,%s,"temperature":1,+}'),
    ('{"temperature":1e-9,%s}', '{"temperature":1e-9,%s,+}'),
    ('{"temperature":null,%s}', '{"temperature":null,%s,+}'),
    ('{"temperature":"cold",%s}', '{"temperature":"cold",%s,+}'),
    ('{"metadata":{"temperature":0},%s}', '{"metadata":{"temperature":0},%s,+}'),
    ('{"temperature":0,%s,"store":false}', '{"temperature":0,%s,"store":false,+}'),
    ('{"temperature":0,%s,"n":2}', '{"temperature":0,%s,"n":2,+}'),
    ('{"temperature":0,%s,"model":"default@base"}', '{"temperature":0,%s,"model":"base-model",+}'),
]  # fmt: skip


def test_only_the_sampling_of_the_clients_bytes_changes(exploring: RunningProxy, vllm: FakeVllm) -> None:
    """Duplicate members: vLLM's reader takes the last, and no reader shall find another."""
    additions = '"return_token_ids":true,"logprobs":true,"top_logprobs":0'
    for raw, _ in SENT_AS:
        exploring.client.post(CHAT, content=(raw % M).encode(), headers={"content-type": "application/json"})
    expected = [
        (sent % M).replace("+", additions if "base-model" in sent else f'"model":"base-model",{additions}')
        for _, sent in SENT_AS
    ]
    assert [seen.body.decode() for seen in vllm.chats()] == expected


def test_a_server_that_is_greedy_by_default_is_told_a_temperature(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    proxy = start_proxy(explore_share=1, default_temperature=0)
    assert proxy.chat().headers["x-explored"] == "0.7"
    assert vllm.chats()[0].body.endswith(b',"temperature":0.7}')
    proxy.chat(temperature=None)
    assert json.loads(vllm.chats()[1].body)["temperature"] == 0.7


@pytest.mark.parametrize(
    ("path", "body", "is_explored"),
    [
        (COMPLETIONS, {"prompt": "Hi"}, True),
        (COMPLETIONS, {"prompt": ["Hi", "Ho"]}, True),
        (COMPLETIONS, {"prompt": ["Hi", "Ho"], "n": 2}, False),
        (COMPLETIONS, {"prompt": "Hi", "echo": True}, False),
        (RESPONSES, {"input": "Hi"}, True),
        (RESPONSES, {"input": "Hi", "stream": True}, False),
        (RESPONSES, {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": {}}]}, False),
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 3}, False),
        (CHAT, {"messages": MESSAGES, "stream": True}, True),
    ],
)
def test_routes_whose_answers_can_be_trained_take_part(
    exploring: RunningProxy, vllm: FakeVllm, path: str, body: dict[str, Any], is_explored: bool
) -> None:
    reply = exploring.client.post(path, json={"model": "default", "temperature": 0, **body})
    assert (reply.status_code, "x-explored" in reply.headers) == (200, is_explored)
    assert json.loads(vllm.calls(path)[0].body)["temperature"] == (0.7 if is_explored else 0)


@pytest.mark.parametrize("headers", [{"X-Turn-Type": "side"}, {"X-Slipstream-Capture": "off"}])
def test_what_is_not_trained_is_left_alone(exploring: RunningProxy, headers: dict[str, str]) -> None:
    assert "x-explored" not in exploring.chat(headers, temperature=0).headers
    assert exploring.metric("slipstream_greedy_calls_total") == 0


def test_a_pinned_version_is_not_explored(exploring: RunningProxy, vllm: FakeVllm) -> None:
    assert "x-explored" not in exploring.chat(model="default@0", temperature=0).headers
    assert json.loads(vllm.chats()[-1].body)["temperature"] == 0


def test_n_above_one_stays_the_error_that_vllm_makes_of_it(exploring: RunningProxy) -> None:
    refused = exploring.chat(temperature=0, n=2)
    assert (refused.status_code, "x-explored" in refused.headers) == (400, False)


def test_a_conversation_and_its_retries_keep_the_decision(
    start_proxy: StartProxy, question: dict[str, Any]
) -> None:
    """Ten talks at a share of a half: that each kept its decision by chance would take luck of 1 in 2^20."""
    proxy = start_proxy(explore_share=0.5)
    decisions = set()
    for number in range(10):
        asked = {**question, "content": f"{question['content']} {number}"}
        first = proxy.chat(messages=[asked], temperature=0)
        again = proxy.chat(RETRY, messages=[asked], temperature=0)
        second = proxy.chat(messages=then(asked, reply_of(again)), temperature=0)
        said = {"x-explored" in reply.headers for reply in (first, again, second)}
        assert len(said) == 1
        decisions |= said
    assert decisions == {True, False}


def named(name: str | None, own_id: UUID | None = None) -> Attribution:
    return Attribution(own_id or new_call_id(), IdentifiedBy.NEW, external_id=name)


def test_the_decision_follows_a_trajectory_by_each_of_its_names() -> None:
    own_id = new_call_id()
    ours = is_chosen("default", named(None, own_id), 0.5)
    assert is_chosen("default", named(str(own_id)), 0.5) is ours
    assert is_chosen("default", named(own_id.hex.upper()), 0.5) is ours
    names = [f"run-{number}" for number in range(64)]
    decided = [[is_chosen(project, named(name), 0.5) for name in names] for project in ("a", "a", "b")]
    assert decided[0] == decided[1] != decided[2]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_share_is_the_share(share: float) -> None:
    """Of 4,000 the number chosen has a standard deviation of at most 32: six of them are 192."""
    num_chosen = sum(is_chosen("default", named(None), share) for _ in range(4000))
    assert abs(num_chosen - 4000 * share) <= (0 if share in (0, 1) else 192)
