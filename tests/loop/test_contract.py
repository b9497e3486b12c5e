"""What the proxy relies on in vLLM: the same assertions hold for the fake and for the pinned real one.

A red line here against the real server means that vLLM changed; against the fake, that the fake lies.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes.vllm import running_fake_vllm
from trainer.siblings.load import Load, load_of

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}]
CAPTURED = {
    "return_token_ids": True,
    "logprobs": True,
    "top_logprobs": 0,
    "temperature": 1.0,
    "seed": 1,
    "max_tokens": 6,
}
CALL_ID = "0198c0de0000700080000000deadbeef"


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.loop)])
def vllm(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    if request.param == "real":
        url = request.getfixturevalue("real_vllm_url")
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            yield client
    else:
        with (
            running_fake_vllm() as fake,
            httpx.Client(base_url=fake.url, timeout=10, trust_env=False) as client,
        ):
            yield client


@pytest.fixture
def base_model(vllm: httpx.Client) -> str:
    return str(vllm.get("/v1/models").json()["data"][0]["id"])


def chat(vllm: httpx.Client, **body: Any) -> httpx.Response:
    return vllm.post(
        "/v1/chat/completions", json={"messages": MESSAGES, **body}, headers={"X-Request-Id": CALL_ID}
    )


def events(response: httpx.Response) -> list[Any]:
    *data, last = [frame.removeprefix("data: ") for frame in response.text.split("\n\n") if frame]
    assert last == "[DONE]"
    return [json.loads(item) for item in data]


def keys(value: Any) -> list[str]:
    return list(value)


def test_a_reply_carries_our_id_its_model_and_the_ids_that_were_asked_for(
    vllm: httpx.Client, base_model: str
) -> None:
    body = chat(vllm, model=base_model, n=2, **CAPTURED).json()
    assert body["id"] == f"chatcmpl-{CALL_ID}"
    assert body["model"] == base_model
    assert keys(body)[:5] == ["id", "object", "created", "model", "choices"]
    assert len(body["prompt_token_ids"]) == body["usage"]["prompt_tokens"]
    for choice in body["choices"]:
        sampled = [token["logprob"] for token in choice["logprobs"]["content"]]
        assert len(sampled) == len(choice["token_ids"])
        assert all(token["top_logprobs"] == [] for token in choice["logprobs"]["content"])
        assert keys(choice) == [
            "index",
            "message",
            "logprobs",
            "finish_reason",
            "stop_reason",
            "token_ids",
            "routed_experts",
        ]
    assert sum(len(c["token_ids"]) for c in body["choices"]) == body["usage"]["completion_tokens"]


def test_what_was_not_asked_for_is_null(vllm: httpx.Client, base_model: str) -> None:
    body = chat(vllm, model=base_model, max_tokens=2).json()
    assert (body["prompt_token_ids"], body["prompt_text"]) == (None, None)
    assert (body["choices"][0]["logprobs"], body["choices"][0]["token_ids"]) == (None, None)


def test_a_stream_begins_with_the_prompt_ids_and_each_token_event_has_its_ids(
    vllm: httpx.Client, base_model: str
) -> None:
    seen = events(chat(vllm, model=base_model, n=2, stream=True, **CAPTURED))
    whole = chat(vllm, model=base_model, n=2, **CAPTURED).json()
    assert seen[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert seen[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    for choice in whole["choices"]:
        mine = [c for event in seen for c in event["choices"] if c["index"] == choice["index"]]
        assert [i for c in mine for i in c.get("token_ids") or ()] == choice["token_ids"]
        assert "".join(c["delta"].get("content") or "" for c in mine) == choice["message"]["content"]
        assert mine[-1]["finish_reason"] == choice["finish_reason"]
        assert sum(len(c["logprobs"]["content"]) for c in mine if c["logprobs"]) == len(choice["token_ids"])


def test_the_fingerprint_moves_to_the_usage_event(vllm: httpx.Client, base_model: str) -> None:
    """Why usage is counted from the ids and not asked for (docs/decisions/0003-call-lifecycle.md)."""
    plain = events(chat(vllm, model=base_model, stream=True, max_tokens=2))
    asked = events(
        chat(vllm, model=base_model, stream=True, max_tokens=2, stream_options={"include_usage": True})
    )
    assert "system_fingerprint" in plain[-1]
    assert not any("usage" in event for event in plain)
    assert (asked[-1]["choices"], "system_fingerprint" in asked[-1]) == ([], True)
    assert "system_fingerprint" not in asked[-2]


def test_unknown_models_are_a_404_and_unknown_fields_pass(vllm: httpx.Client, base_model: str) -> None:
    missing = chat(vllm, model="no-such@1")
    assert (missing.status_code, missing.json()["error"]["param"], missing.json()["error"]["code"]) == (
        404,
        "model",
        404,
    )
    metadata = {"trajectory_id": "t"}
    assert (
        chat(vllm, model=base_model, max_tokens=1, metadata=metadata, store=False, x_vendor=1).status_code
        == 200
    )


@pytest.mark.parametrize("body", [{"temperature": -1}, {"temperature": 0, "n": 2}, {"top_logprobs": 2}])
def test_refusals_are_error_objects_with_integer_codes(
    vllm: httpx.Client, base_model: str, body: dict[str, Any]
) -> None:
    for is_streamed in (False, True):
        refused = chat(vllm, model=base_model, stream=is_streamed, **body)
        assert refused.status_code == 400
        assert keys(refused.json()["error"]) == ["message", "type", "param", "code"]
        assert refused.json()["error"]["code"] == 400


def test_adapters_that_are_missing_or_not_loaded_are_404s(vllm: httpx.Client) -> None:
    unload = vllm.post("/v1/unload_lora_adapter", json={"lora_name": "no-such@1"})
    assert (unload.status_code, unload.json()["error"]["type"]) == (404, "NotFoundError")


def test_health_is_empty_and_well(vllm: httpx.Client) -> None:
    response = vllm.get("/health")
    assert (response.status_code, response.content) == (200, b"")


def test_an_idle_server_says_that_it_is_idle(vllm: httpx.Client) -> None:
    """Shadow siblings are sampled by what /metrics says."""
    assert load_of(vllm.get("/metrics").text) == Load(0, 0)
