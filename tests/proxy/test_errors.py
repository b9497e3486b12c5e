"""Bad requests and bad upstreams: always OpenAI's envelope, never a 500, never a redirect."""

import gzip
import json
import socket
import zlib
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    return error


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b"", None),
        (b'{"model":', None),
        (b"[1]", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b'{"messages":' + b"[" * 100_000, None),
        (b'{"model":"x"}', "messages"),
        (b'{"messages":"hi"}', "messages"),
        (b'{"messages":[],"model":5}', "model"),
        (b'{"messages":[],"n":1000000}', "n"),
        (b'{"messages":[],"n":0}', "n"),
        (b'{"messages":[],"n":"2"}', "n"),
        (b'{"messages":[],"n":true}', "n"),
        (b'{"messages":[],"metadata":{"trajectory_id":"a\\u0000b"}}', "metadata.trajectory_id"),
    ],
)
def test_a_request_that_cannot_be_understood_is_a_400_that_names_the_field(
    shared_proxy: RunningProxy, raw: bytes, param: str | None
) -> None:
    """B137: n is capped before vLLM sees it."""
    before = shared_proxy.metric("slipstream_calls_total")
    response = shared_proxy.client.post("/v1/chat/completions", content=raw)
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert shared_proxy.metric("slipstream_calls_total") == before


@pytest.mark.parametrize("is_streamed", [False, True])
def test_vllms_own_error_objects_pass_unchanged_as_plain_json(proxy: RunningProxy, is_streamed: bool) -> None:
    """B020 B036 B043: status, integer code and message as vLLM wrote them, and the failed call is a row."""
    response = proxy.chat(messages=[], stream=is_streamed)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert error_of(response)["code"] == 400
    [row] = proxy.exchanges()
    assert (row.status, row.http_status, row.error["code"], row.untrainable_reason) == (
        "failed",
        400,
        400,
        "failed",
    )


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (400, b'{"detail":"Nope"}'),
        (500, b"Internal Server Error"),
        (404, b'{"object":"error","message":"gone"}'),
        (503, b""),
    ],
)
def test_other_error_shapes_become_openais(
    proxy: RunningProxy, vllm: FakeVllm, status: int, raw: bytes
) -> None:
    vllm.faults.status, vllm.faults.raw_body = status, raw
    response = proxy.chat()
    assert response.status_code == status
    error_of(response)


@pytest.mark.parametrize("path", ["/v1/nothing", "/", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/docs", "/tokenize",
                                  "/v1/score", "/openapi.json", "/sleep", "/v1//reset_prefix_cache"])  # fmt: skip
def test_unknown_routes_are_a_404_that_names_them(shared_proxy: RunningProxy, path: str) -> None:
    """B048: and vLLM's management routes do not exist here."""
    for method in ("GET", "POST", "DELETE", "PUT"):
        response = shared_proxy.client.request(method, path)
        assert response.status_code == 404
        assert error_of(response)["code"] == "unknown_url"
        assert method in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("DELETE", "/health")]
)
def test_wrong_methods_are_a_405_with_allow(shared_proxy: RunningProxy, method: str, path: str) -> None:
    response = shared_proxy.client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"]
    error_of(response)


@pytest.mark.parametrize(
    ("method", "answered"), [("HEAD", [200, 405, 200, 404]), ("OPTIONS", [204, 204, 204, 404])]
)
def test_head_and_options_are_no_500(shared_proxy: RunningProxy, method: str, answered: list[int]) -> None:
    """B068"""
    paths = ("/v1/models", "/v1/chat/completions", "/health", "/nothing")
    assert [shared_proxy.client.request(method, path).status_code for path in paths] == answered


def test_models_are_listed_and_read(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B068 B069 B070"""
    listed = [model["id"] for model in proxy.client.get("/v1/models").json()["data"]]
    assert listed == ["default", "default@base", "default@0"]
    assert proxy.client.get("/v1/models/default@0").json()["object"] == "model"
    missing = proxy.client.get("/v1/models/Qwen/Qwen3-0.6B")
    assert (missing.status_code, error_of(missing)["code"]) == (404, "model_not_found")
    assert proxy.chat(model="default@base").headers["x-model-version"] == "0"
    vllm.known_paths_only = True
    for pinned in ("default@7", "default@x", "default@-1", "default@99999999999999999999"):
        assert error_of(proxy.chat(model=pinned))["code"] == "model_not_found"


@pytest.mark.parametrize("is_declared", [True, False])
def test_large_bodies_are_refused_declared_or_chunked(start_proxy: StartProxy, is_declared: bool) -> None:
    """B076"""
    proxy = start_proxy(max_body_bytes=10_000)

    def chunks() -> Any:
        yield from (b"x" * 1000 for _ in range(100))

    response = proxy.client.post("/v1/chat/completions", content=b"x" * 10_001 if is_declared else chunks())
    assert (response.status_code, error_of(response)["code"]) == (413, "request_too_large")
    assert proxy.client.post("/v1/trajectories/x/reward", content=b"x" * 10_001).status_code == 413


def raw_exchange(proxy: RunningProxy, raw: bytes) -> bytes:
    """What comes back until the proxy closes."""
    host, port = proxy.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(raw)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def test_large_headers_are_a_431_and_the_connection_closes(shared_proxy: RunningProxy) -> None:
    """B145"""
    for size in (70_000, 600_000):
        answer = raw_exchange(
            shared_proxy,
            b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Big: " + b"a" * size + b"\r\n\r\n",
        )
        assert b" 431 " in answer.split(b"\r\n")[0]
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "headers_too_large"


def test_what_is_no_http_is_a_400(shared_proxy: RunningProxy) -> None:
    answer = raw_exchange(shared_proxy, b"nonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"error"' in answer


def test_slow_heads_and_bodies_end(start_proxy: StartProxy) -> None:
    """B075: a silent connection and a half-sent head are closed; a body that never comes is a 408."""
    proxy = start_proxy(header_seconds=0.3, body_seconds=0.3)
    assert raw_exchange(proxy, b"") == b""
    assert raw_exchange(proxy, b"GET /health HTT") == b""
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n{"
    )
    assert b" 408 " in raw_exchange(proxy, head)


@pytest.mark.parametrize("host", ["localhost:4000/#@x", "localhost/v1/models?", "a@b", "x y", "x\\y"])
def test_odd_host_headers_decide_nothing_and_are_refused(shared_proxy: RunningProxy, host: str) -> None:
    """B134 B143"""
    for path in ("/v1/models", "/v1/trajectories"):
        response = shared_proxy.client.get(path, headers={"Host": host})
        assert response.status_code == 400
        error_of(response)


def test_compressed_replies_of_the_upstream_arrive_readable(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B026 B028"""
    for encoding in ("gzip", "deflate"):
        vllm.faults.content_encoding = encoding
        response = proxy.chat(headers={"accept-encoding": "gzip"})
        assert response.json()["model"] == "default@0"
        assert "content-encoding" not in response.headers
    assert vllm.chats()[-1].headers["Accept-Encoding"] == "identity"


def test_a_compressed_request_is_read_within_the_limit_and_forwarded_plain(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    proxy = start_proxy(max_body_bytes=10_000)
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}).encode()

    def post(raw: bytes, encoding: str = "gzip") -> httpx.Response:
        headers = {"content-encoding": encoding, "content-type": "application/json"}
        return proxy.client.post("/v1/chat/completions", content=raw, headers=headers)

    assert post(gzip.compress(body)).status_code == post(zlib.compress(body), "deflate").status_code == 200
    assert [json.loads(seen.body)["messages"][0]["content"] for seen in vllm.chats()] == ["Hi", "Hi"]
    assert "Content-Encoding" not in vllm.chats()[-1].headers
    assert error_of(post(body))["message"].startswith("The body is not compressed")
    assert error_of(post(gzip.compress(body)[:-9]))["message"].startswith("The compressed body is cut off")
    assert post(gzip.compress(b"[" + b" " * 1_000_000)).status_code == 413
    assert post(body, "br").status_code == 415
    assert len(vllm.chats()) == 2


def test_nonsense_from_the_upstream_is_a_502_and_a_failed_row(proxy: RunningProxy, vllm: FakeVllm) -> None:
    for raw in (b"<html>", b"[]", b'{"choices":[{"index":0,'):
        vllm.faults.raw_body = raw
        assert error_of(proxy.chat())["code"] == "upstream_broken"
    assert {row.status for row in proxy.exchanges(3)} == {"failed"}
    vllm.faults.raw_body = None
    eventually(lambda: proxy.chat().status_code == 200)


def test_a_fault_of_ours_has_the_envelope_too(proxy: RunningProxy) -> None:
    with proxy.engine.begin() as connection:
        connection.execute(text("DROP VIEW v1.versions CASCADE"))
    response = proxy.client.get("/v1/versions")
    assert response.status_code == 500
    assert error_of(response)["type"] == "server_error"


def test_errors_of_messages_have_anthropics_shape_and_openais(shared_proxy: RunningProxy) -> None:
    for body in (b"{", b'{"messages": 1}'):
        error = shared_proxy.client.post("/v1/messages", content=body).json()
        assert error["type"] == "error"
        assert error["error"]["type"] == "invalid_request_error"


def test_a_fault_of_a_management_route_is_one_envelope_and_one_log_line(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("proxy.management.routes.list_models", broken)
    response = proxy.client.get("/v1/models")
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
    logged: list[str] = []
    eventually(lambda: logged.extend(capfd.readouterr()) or "RuntimeError: odd" in "".join(logged))
    assert "".join(logged).count("request_broken") == 1
    assert "Exception in ASGI application" not in "".join(logged)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("kind", [["x"], {"a": 1}, None, 1])
def test_a_part_of_no_kind_that_exists_is_vllms_to_judge(
    proxy: RunningProxy, path: str, kind: object
) -> None:
    messages = [
        {"role": "user", "content": [{"type": kind, "text": "a"}]},
        {"role": "assistant", "content": "b"},
    ]
    response = proxy.client.post(path, json={"messages": messages, "input": messages, "max_tokens": 3})
    assert response.status_code in {200, 400}


def test_a_refusal_names_its_request(shared_proxy: RunningProxy) -> None:
    refused = shared_proxy.chat(n=0, headers={"X-Request-Id": "mine"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (400, "mine")
    assert len(shared_proxy.chat(n=0).headers["x-request-id"]) == 32
