"""Paths, methods and origins: whatever a client's base URL looks like is served, or answered with a clear error."""

import threading
from typing import Any

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    "path",
    ["/v1/chat/completions", "/chat/completions", "/v1/v1/chat/completions", "//v1//chat/completions/", "/v1/chat/completions//",
     "/v1/chat/completions/", "/sessions/run-7/v1/chat/completions", "/sessions/run-7/chat/completions",
     "/sessions/run-7/v1/v1/chat/completions", "/sessions/a b/chat/completions"],
)  # fmt: skip
def test_a_missing_or_doubled_v1_and_stray_slashes_are_served(shared_proxy: RunningProxy, path: str) -> None:
    """B071 B073: never redirected, because a redirected POST loses its body."""
    response = shared_proxy.client.post(path, json=BODY)
    assert (response.status_code, response.history) == (200, [])
    if "run-7" in path:
        assert response.headers["x-trajectory-id"] == "run-7"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/chat/completions", "OPTIONS, POST"),
        ("/v1/messages", "OPTIONS, POST"),
        ("/v1/models", "GET, HEAD, OPTIONS"),
        ("/v1/models/Qwen/Qwen3-0.6B", "GET, HEAD, OPTIONS"),
        ("/v1/trajectories/x/reward", "DELETE, GET, HEAD, OPTIONS, POST"),
        ("/health", "GET, HEAD, OPTIONS"),
    ],
)
def test_options_tells_the_methods_of_a_route(shared_proxy: RunningProxy, path: str, allow: str) -> None:
    """B068"""
    response = shared_proxy.client.options(path)
    assert (response.status_code, response.headers["allow"], response.content) == (204, allow, b"")


def test_options_of_no_route_is_a_404(shared_proxy: RunningProxy) -> None:
    assert shared_proxy.client.options("/v1/nothing").json()["error"]["code"] == "unknown_url"


def test_head_answers_like_get_without_a_body(shared_proxy: RunningProxy) -> None:
    """B068"""
    for path in ("/health", "/v1/models", "/ready"):
        response = shared_proxy.client.head(path)
        assert (response.status_code, response.content) == (200, b"")
        assert int(response.headers["content-length"]) > 0
    refused = shared_proxy.client.head("/v1/chat/completions")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_other_origins_are_not_answered_unless_named(
    shared_proxy: RunningProxy, start_proxy: StartProxy
) -> None:
    origin = {"origin": "https://app.example"}
    asking = {
        **origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    assert (
        "access-control-allow-origin"
        not in shared_proxy.client.post("/v1/chat/completions", json=BODY, headers=origin).headers
    )
    proxy = start_proxy(cors_origins="https://app.example, https://two.example")
    before = proxy.client.options("/v1/chat/completions", headers=asking)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in before.headers["access-control-allow-headers"].lower()
    after = proxy.client.post("/v1/chat/completions", json=BODY, headers=origin)
    assert after.headers["access-control-allow-origin"] == "https://app.example"
    assert "x-trajectory-id" in after.headers["access-control-expose-headers"]
    other = proxy.client.post("/v1/chat/completions", json=BODY, headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    refused = proxy.client.options(
        "/v1/chat/completions", headers={**asking, "origin": "https://evil.example"}
    )
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/json")
    assert "SLIPSTREAM_CORS_ORIGINS" in refused.json()["error"]["message"]
    assert "access-control-allow-origin" not in refused.headers
    assert "Origin" in refused.headers["vary"]
    unknown = proxy.client.options(
        "/v1/chat/completions", headers={**asking, "access-control-request-method": "PUT"}
    )
    assert "Disallowed CORS method: " in unknown.json()["error"]["message"]


LIMITED: list[tuple[str, str, dict[str, Any]]] = [
    ("/v1/chat/completions", "n", {"n": 65}),
    ("/v1/chat/completions", "n", {"n": 1_000_000}),
    ("/v1/chat/completions", "top_logprobs", {"logprobs": True, "top_logprobs": 21}),
    ("/v1/chat/completions", "max_tokens", {"max_tokens": 1 << 40}),
    ("/v1/chat/completions", "max_completion_tokens", {"max_completion_tokens": 200_000}),
    ("/v1/chat/completions", "max_tokens", {"max_completion_tokens": 5, "max_tokens": "999999999"}),
    ("/v1/chat/completions", "max_tokens", {"max_tokens": 1e9}),
    ("/v1/chat/completions", "top_logprobs", {"logprobs": True, "top_logprobs": "999"}),
    ("/v1/embeddings", "chat_template", {"chat_template": "x"}),
    (
        "/v1/embeddings",
        "input",
        {"input": [[{"content": [{"type": "image_url", "image_url": {"url": "x"}}]}]]},
    ),
    (
        "/v1/messages/count_tokens",
        "chat_template_kwargs.tokenize",
        {"chat_template_kwargs": {"tokenize": True}},
    ),
    ("/v1/messages", "system", {"system": [{"type": "image", "source": {"type": "url"}}]}),
    (
        "/v1/responses",
        "input",
        {"input": [{"type": "function_call_output", "output": [{"type": "input_image"}]}]},
    ),
    ("/v1/chat/completions", "stop", {"stop": ["x"] * 65}),
    (
        "/v1/chat/completions",
        "tools",
        {"tools": [{"type": "function", "function": {"name": "x" * (1 << 20)}}]},
    ),
    ("/v1/chat/completions", "chat_template", {"chat_template": "{{ x }}"}),
    ("/v1/chat/completions", "kv_transfer_params", {"kv_transfer_params": {"prompt_token_ids": [1]}}),
    ("/v1/completions", "prompt", {"prompt": ["a"] * 65}),
    ("/v1/completions", "prompt", {"prompt": {}}),
    ("/v1/completions", "logprobs", {"prompt": "a", "logprobs": 21}),
    ("/v1/completions", "prompt_embeds", {"prompt": "a", "prompt_embeds": "x"}),
    ("/v1/responses", "previous_response_id", {"input": "Hi", "previous_response_id": "resp_1"}),
    ("/v1/responses", "input", {"input": 1}),
    ("/v1/messages", "stop_sequences", {"stop_sequences": ["x"] * 65, "max_tokens": 1}),
    ("/v1/messages", "max_tokens", {"max_tokens": 1 << 40}),
    ("/v1/chat/completions", "model", {"model": 1}),
]


@pytest.mark.parametrize(("path", "param", "more"), LIMITED)
def test_what_asks_for_too_much_is_refused_by_name_before_vllm_sees_it(
    proxy: RunningProxy, vllm: FakeVllm, path: str, param: str, more: dict[str, Any]
) -> None:
    """B137 B138"""
    response = proxy.client.post(path, json={**BODY, **more})
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert not [seen for seen in vllm.seen if seen.path == path]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254\\@example.com/"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "http://x"}},
        {"image_url": "http://x"},
        {"type": "prompt_embeds", "data": "x"},
        {
            "type": "tool_result",
            "content": [{"type": "image", "source": {"type": "url", "url": "http://10.0.0.1"}}],
        },
    ],
)
def test_media_never_reach_a_text_model(proxy: RunningProxy, vllm: FakeVllm, part: dict[str, Any]) -> None:
    """B141"""
    response = proxy.chat(messages=[{"role": "user", "content": [{"type": "text", "text": "Look"}, part]}])
    assert (response.status_code, response.json()["error"]["param"]) == (400, "messages")
    assert not vllm.chats()


def test_an_operator_with_a_multimodal_model_lets_media_pass(start_proxy: StartProxy, vllm: FakeVllm) -> None:
    proxy = start_proxy(allows_media=True)
    content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    assert proxy.chat(messages=[{"role": "user", "content": content}]).status_code == 200
    assert b"image_url" in vllm.chats()[-1].body


def test_dropped_fields_are_cut_and_the_rest_is_the_clients_own_text(
    proxy: RunningProxy, vllm: FakeVllm
) -> None:
    raw = (
        b'{"priority": -5,\n "messages": [{"role":"user","content":"\\u00e9"}], "cache_salt":"s",'
        b' "temperature": 1.50, "x_vendor": {"a" :1},"request_id":"r"  }'
    )
    assert proxy.client.post("/v1/chat/completions", content=raw).status_code == 200
    assert vllm.chats()[-1].body == (
        b'{"messages": [{"role":"user","content":"\\u00e9"}],'
        b' "temperature": 1.50, "x_vendor": {"a" :1},"model":"base-model","return_token_ids":true,"logprobs":true,'
        b'"top_logprobs":0  }'
    )
    [row] = proxy.exchanges()
    assert row.request["priority"] == -5


def test_many_large_bodies_at_once_are_refused_and_small_ones_served(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    proxy = start_proxy(max_open_bytes=300_000)
    large = {"messages": [{"role": "user", "content": "x" * 200_000}]}
    vllm.faults.hang_before_reply = True
    running = threading.Thread(target=proxy.chat, kwargs=large)
    running.start()
    eventually(lambda: proxy.metric("slipstream_inflight_calls") == 1)
    refused = proxy.chat(**large)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
    assert refused.headers["retry-after"] == "1"
    vllm.faults.hang_before_reply = False
    assert proxy.chat().status_code == 200
    vllm.stop()
    vllm.start()
    running.join()
    assert proxy.chat(**large).status_code == 200
