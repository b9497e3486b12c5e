"""The ordinary path: what goes up, what comes back, what is recorded."""

import json
from typing import Any

import httpx
import pytest

from ledger.groups.routes import route_named
from ledger.identifiers import parse_id
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy


def events(response: httpx.Response) -> list[Any]:
    lines = [line[6:] for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_i1_a_plain_reply_holds_no_field_of_ours(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """I1"""
    response = proxy.chat(max_tokens=3)
    body = response.json()
    assert response.status_code == 200
    assert body["model"] == "default@0"
    assert body["choices"][0]["logprobs"] is None
    assert "token_ids" not in response.text
    assert "prompt_text" not in response.text
    assert response.headers["x-captured"] == "true"
    assert response.headers["x-model-version"] == "0"
    sent = json.loads(vllm.chats()[-1].body)
    assert (sent["model"], sent["return_token_ids"], sent["logprobs"], sent["top_logprobs"]) == (
        "base-model",
        True,
        True,
        0,
    )


def test_i3_the_row_holds_what_vllm_returned(proxy: RunningProxy) -> None:
    """I3: asked for by the client here, so that both sides can be compared."""
    response = proxy.chat(max_tokens=3, temperature=0.7, seed=5, return_token_ids=True, logprobs=True)
    choice = response.json()["choices"][0]
    [row] = proxy.exchanges()
    assert row.completion_ids == choice["token_ids"]
    assert row.prompt_ids == response.json()["prompt_token_ids"]
    sampled = [token["logprob"] for token in choice["logprobs"]["content"]]
    assert row.logprobs == pytest.approx(sampled, rel=1e-6)  # the column is float32, as vLLM's numbers are
    assert (row.status, row.is_trainable, row.is_delivered, row.temperature, row.seed) == (
        "completed",
        True,
        True,
        0.7,
        5,
    )
    assert row.num_prompt_tokens == len(row.prompt_ids)
    assert parse_id(response.json()["id"]) == row.id
    assert row.answered_model == "base-model"


def test_i1_the_stream_holds_no_field_of_ours_and_ends_with_done(proxy: RunningProxy) -> None:
    """I1, B013, B015"""
    response = proxy.chat(max_tokens=3, stream=True)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    seen = events(response)
    assert not any("usage" in event for event in seen)
    assert "token_ids" not in response.text
    assert seen[-1]["system_fingerprint"]
    assert {event["model"] for event in seen} == {"default@0"}
    [row] = proxy.exchanges()
    assert row.completion_text == "".join(e["choices"][0]["delta"]["content"] for e in seen)
    assert len(row.completion_ids) == len(row.logprobs) == 3
    assert row.first_token_seconds <= row.total_seconds


def test_usage_is_streamed_to_those_who_ask_and_recorded_for_all(proxy: RunningProxy) -> None:
    """B010 B065 B066"""
    asked = events(proxy.chat(max_tokens=3, stream=True, stream_options={"include_usage": True}))
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["completion_tokens"] == 3
    proxy.chat(max_tokens=3, stream=True)
    assert {(row.num_prompt_tokens, row.num_completion_tokens) for row in proxy.exchanges(2)} == {
        (asked[-1]["usage"]["prompt_tokens"], 3)
    }


def test_a_client_that_asks_for_logprobs_gets_them_in_its_shape(proxy: RunningProxy) -> None:
    """B061"""
    body = proxy.chat(max_tokens=2, logprobs=True, top_logprobs=3).json()
    assert len(body["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 3
    assert "token_ids" not in body["choices"][0]
    refused = proxy.chat(max_tokens=2, top_logprobs=3)
    assert refused.status_code == 400


@pytest.mark.parametrize("is_streamed", [False, True])
def test_n_choices_are_n_trajectories_of_one_group(proxy: RunningProxy, is_streamed: bool) -> None:
    """B056"""
    response = proxy.chat(n=3, max_tokens=2, stream=is_streamed, headers={"X-Trajectory-Id": "run"})
    assert response.headers["x-trajectory-id"] == "run, run#1, run#2"
    rows = proxy.exchanges(3)
    assert [row.choice_index for row in rows] == [0, 1, 2]
    assert len({tuple(row.completion_ids) for row in rows}) == 3
    groups = proxy.rows(
        "SELECT kind, size, count(*) FROM groups JOIN trajectories t ON t.group_id = groups.id GROUP BY 1, 2"
    )
    assert groups == [("choices", 3, 3)]


def test_the_body_goes_upstream_byte_for_byte_but_for_our_fields(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B045: odd spacing, escapes, unknown fields, numbers as written."""
    raw = (
        b'{ "messages" : [{"role":"user","content":"\\ud83d caf\xc3\xa9 \\u0000","tool_calls":[]}],\n'
        b' "model":"x", "temperature":1.0e0, "x_vendor":{"b":1,"a":[ ]},"max_tokens":2 }'
    )
    assert proxy.client.post("/v1/chat/completions", content=raw).status_code == 200
    sent = vllm.chats()[-1].body
    assert sent == raw.replace(b'"model":"x"', b'"model":"base-model"').replace(
        b'"max_tokens":2 }', b'"max_tokens":2,"return_token_ids":true,"logprobs":true,"top_logprobs":0 }'
    )
    assert proxy.exchanges()[0].status == "completed"


@pytest.mark.parametrize(
    ("path", "headers", "metadata", "expected"),
    [
        ("/sessions/from-path/v1/chat/completions", {"X-Trajectory-Id": "h"}, {}, ("from-path", "path")),
        (
            "/v1/chat/completions",
            {"X-Trajectory-Id": "h", "X-Session-Id": "s"},
            {"trajectory_id": "m"},
            ("h", "header"),
        ),
        ("/v1/chat/completions", {"X-Session-Id": "s"}, {"trajectory_id": "m"}, ("s", "header")),
        ("/v1/chat/completions", {}, {"trajectory_id": "m", "session_id": "n"}, ("m", "metadata")),
        ("/v1/chat/completions", {}, {"session_id": "n"}, ("n", "metadata")),
        ("/v1/chat/completions", {}, {}, (None, "new")),
    ],
)
def test_the_first_rule_that_matches_names_the_trajectory(
    proxy: RunningProxy,
    path: str,
    headers: dict[str, str],
    metadata: dict[str, str],
    expected: tuple[str | None, str],
) -> None:
    response = proxy.chat(path=path, headers=headers, metadata=metadata)
    proxy.exchanges()
    [row] = proxy.rows("SELECT id, external_id, identified_by FROM trajectories")
    assert (row.external_id, row.identified_by) == expected
    assert response.headers["x-trajectory-id"] == (expected[0] or str(row.id))


def test_the_id_of_an_earlier_reply_continues_its_trajectory(proxy: RunningProxy) -> None:
    first = proxy.chat().headers["x-trajectory-id"]
    proxy.exchanges()
    proxy.chat(headers={"X-Trajectory-Id": first})
    rows = proxy.exchanges(2)
    assert {str(row.trajectory_id) for row in rows} == {first}


def test_capture_off_is_served_and_not_stored(proxy: RunningProxy, vllm: FakeVllm) -> None:
    response = proxy.chat(headers={"X-Slipstream-Capture": "off"})
    assert response.headers["x-captured"] == "false"
    assert response.json()["model"] == "default@0"
    assert b"return_token_ids" not in vllm.chats()[-1].body
    proxy.chat(headers={"X-Turn-Type": "side"})
    proxy.chat(store=False)
    rows = proxy.exchanges(2)
    assert [(row.turn_type, row.is_trainable, row.untrainable_reason) for row in rows] == [
        ("side", False, "opted_out"),
        ("main", False, "opted_out"),
    ]


def test_a_call_costs_the_client_no_wait_for_postgres(start_proxy: StartProxy, vllm: FakeVllm) -> None:
    proxy = start_proxy()
    with proxy.engine.begin() as connection:
        connection.exec_driver_sql("LOCK TABLE exchanges IN ACCESS EXCLUSIVE MODE")
        assert proxy.chat().status_code == 200
    proxy.exchanges()


@pytest.mark.parametrize(("given", "recorded"), [("0.25", 0.25), (True, 1.0), (False, 0.0), (None, 1.0)])
def test_a_temperature_is_recorded_as_vllm_reads_it(proxy: RunningProxy, given: Any, recorded: float) -> None:
    """pydantic takes "0.25" for a number: the trainer must divide by the one that was sampled with."""
    proxy.chat(temperature=given)
    assert proxy.exchanges()[0].temperature == recorded


def test_the_caller_may_name_the_route(proxy: RunningProxy) -> None:
    proxy.chat(headers={"X-Route": "support"})
    proxy.chat(metadata={"route": "billing"})
    proxy.chat()
    proxy.exchanges(3)
    with proxy.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT route FROM trajectories ORDER BY id").scalars().all()
    assert found[:2] == [route_named("support"), route_named("billing")]
    assert len(found[2]) == 32
    refused = proxy.chat(headers={"X-Route": "r" * 257})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-Route")
