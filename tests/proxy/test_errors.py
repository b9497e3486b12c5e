"""Bad requests and bad upstreams: always OpenAI's envelope, never a 500, never a redirect."""

import pytest
from sqlalchemy import text

from tests.fakes.vllm import FakeVllm
from tests.proxy.refusals import error_of
from tests.proxy.running import RunningProxy, eventually


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


def test_compressed_replies_of_the_upstream_arrive_readable(proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B026 B028"""
    for encoding in ("gzip", "deflate"):
        vllm.faults.content_encoding = encoding
        response = proxy.chat(headers={"accept-encoding": "gzip"})
        assert response.json()["model"] == "default@0"
        assert "content-encoding" not in response.headers
    assert vllm.chats()[-1].headers["Accept-Encoding"] == "identity"


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
