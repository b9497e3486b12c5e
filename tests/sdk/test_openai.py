"""openai for Python, newest and 1.x, and for Node: all see what they would see of OpenAI."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy, eventually
from tests.sdk.conftest import OPENAI_SDKS
from tests.sdk.seen import HIDDEN, MESSAGES, base, keys_in, row_of
from tests.sdk.worker import Worker


def test_a_whole_reply_and_its_headers(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    seen = sdk("chat", base(proxy), body={"messages": MESSAGES, "max_tokens": 3})
    reply, headers = seen["reply"], seen["headers"]
    assert (reply["model"], len(reply["choices"]), reply["choices"][0]["logprobs"]) == ("default@0", 1, None)
    assert not keys_in(reply) & HIDDEN
    assert reply["usage"]["completion_tokens"] == 3
    assert (headers["x-captured"], headers["x-model-version"]) == ("true", "0")
    assert headers["x-trajectory-id"]
    assert reply["id"] == f"chatcmpl-{headers['x-request-id']}"
    assert row_of(proxy, headers["x-request-id"]).client_name.lower().startswith("openai/")


@pytest.mark.parametrize("asks", [False, True])
def test_usage_comes_to_those_who_asked(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, asks: bool) -> None:
    """B010 B011 B013 B065 B066: one chunk of usage, with empty choices, or no trace of it."""
    options = {"stream_options": {"include_usage": True}} if asks else {}
    body = {"messages": MESSAGES, "max_tokens": 3, **options}
    chunks = sdk("chat_stream", base(proxy), body=body)["chunks"]
    assert [chunk["choices"] for chunk in chunks if chunk.get("usage")] == ([[]] if asks else [])
    assert all("choices" in chunk for chunk in chunks)
    assert not keys_in(chunks) & HIDDEN


def test_logprobs_come_in_the_shape_that_was_asked_for(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B061"""
    body = {"messages": MESSAGES, "max_tokens": 2, "logprobs": True, "top_logprobs": 3}
    [choice] = sdk("chat", base(proxy), body=body)["reply"]["choices"]
    assert [len(token["top_logprobs"]) for token in choice["logprobs"]["content"]] == [3, 3]
    chunks = sdk("chat_stream", base(proxy), body=body)["chunks"]
    streamed = [
        t for x in chunks for c in x["choices"] if c.get("logprobs") for t in c["logprobs"]["content"]
    ]
    assert streamed == choice["logprobs"]["content"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_waits_as_told(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, status: int) -> None:
    """B080: the SDK comes again after Retry-After, and both calls are rows."""
    vllm.faults.status, vllm.faults.num_refusals = status, 1
    vllm.faults.raw_body, vllm.faults.headers = b'{"detail":"busy"}', {"Retry-After": "1"}
    request_id = uuid.uuid4().hex
    given = {"headers": {"X-Request-Id": request_id}, "body": {"messages": MESSAGES, "max_tokens": 2}}
    seen = sdk("chat", base(proxy), max_retries=2, **given)
    assert seen["reply"]["choices"]
    assert 1 <= seen["seconds"] < 5
    rows = eventually(
        lambda: (
            (
                found := proxy.rows(
                    "SELECT * FROM exchanges WHERE request_id = :name ORDER BY id", name=request_id
                )
            )
            and len(found) == 2
            and found
        )
    )
    assert [row.http_status for row in rows] == [status, 200]


@pytest.mark.parametrize(
    ("body", "kind", "param"),
    [
        ({"messages": MESSAGES, "n": 2, "temperature": 0}, "BadRequestError", None),
        ({"messages": MESSAGES, "n": 0}, "BadRequestError", "n"),
        ({"messages": MESSAGES, "model": "default@99"}, "NotFoundError", "model"),
    ],
)
def test_errors_are_the_sdks_own(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, *, body: dict[str, Any], kind: str, param: str | None
) -> None:
    """B036: a refused stream is an error with its status as well."""
    for do in ("chat", "chat_stream"):
        error = sdk(do, base(proxy), body=body)["error"]
        assert kind in error["kinds"]
        assert error["param"] == param


@pytest.mark.parametrize("status", [429, 500, 503])
def test_upstream_failures_have_their_own_kinds(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, status: int
) -> None:
    vllm.faults.status, vllm.faults.raw_body = status, b"Internal Server Error"
    error = sdk("chat", base(proxy), body={"messages": MESSAGES})["error"]
    assert ("RateLimitError" if status == 429 else "InternalServerError") in error["kinds"]


def test_pooled_connections_outlive_the_sdks_five_seconds(
    worker_of: Callable[[str], Worker], proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B074: the SDKs' pools keep a connection for 5 s; calls at that very moment must not fail."""

    def idle(name: str) -> Any:
        return worker_of(name)("idle", base(proxy), pauses=[4.9, 5.0, 5.1])

    with ThreadPoolExecutor(len(OPENAI_SDKS)) as threads:
        seen = [*threads.map(idle, OPENAI_SDKS)]
    assert [each.get("calls") for each in seen] == [4] * len(OPENAI_SDKS)
