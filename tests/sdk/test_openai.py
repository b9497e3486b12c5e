"""openai for Python, newest and 1.x, and for Node: all see what they would see of OpenAI."""

import json
import re
import uuid
from typing import Any

import pytest

from tests.corpus.recording import load, one
from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy, eventually
from tests.sdk.framings import FRAMINGS
from tests.sdk.worker import Worker

MESSAGES = [{"role": "user", "content": "Hi"}]
HIDDEN = {"token_ids", "prompt_token_ids", "prompt_text"}  # what only the proxy asked for


def base(proxy: RunningProxy) -> str:
    return f"{proxy.url}/v1"


def row_of(proxy: RunningProxy, request_id: str) -> Any:
    """The one row of the call that was named so."""
    found = eventually(
        lambda: proxy.rows("SELECT * FROM exchanges WHERE request_id = :name", name=request_id)
    )
    [row] = found
    return row


def joined(chunks: list[Any], index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def keys_in(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(keys_in, value)) if value else set()
    if isinstance(value, dict):
        return set(value).union(*map(keys_in, value.values()))
    return set()


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


def test_a_stream_is_the_whole_reply_piece_by_piece(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B015 B033 B056: three choices keep apart; each ends with its own finish reason."""
    body = {"messages": MESSAGES, "max_tokens": 4, "n": 3, "seed": 5, "stop": [" w5"]}
    whole = sdk("chat", base(proxy), body=body)["reply"]
    chunks = sdk("chat_stream", base(proxy), body=body)["chunks"]
    for choice in whole["choices"]:
        ends = [c["finish_reason"] for x in chunks for c in x["choices"] if c["index"] == choice["index"]]
        assert joined(chunks, choice["index"]) == choice["message"]["content"]
        assert (ends[-1], set(ends[:-1])) == (choice["finish_reason"], {None})


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


def called(chunks: list[Any]) -> dict[int, list[str]]:
    """Name, arguments and id of each call of tools, put together by index as programs do it."""
    calls: dict[int, list[str]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        for part in choice["delta"].get("tool_calls") or ():
            call = calls.setdefault(part["index"], ["", "", ""])
            function = part.get("function") or {}
            call[0] += function.get("name") or ""
            call[1] += function.get("arguments") or ""
            call[2] = call[2] or part.get("id") or ""
    return calls


@pytest.mark.parametrize(
    "name", ["chat_tool_auto", "chat_tool_parallel", "chat_tool_after_text", "chat_tool_required"]
)
def test_streamed_tool_calls_arrive_whole(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, name: str
) -> None:
    """B040 B041: as the real vLLM streamed them; no event more than a client without us would see."""
    vllm.replays = [*load(name)]
    recorded = one(name, "client", is_streamed=True)
    body = {key: value for key, value in recorded.asked.body.items() if key != "stream"}  # type: ignore[union-attr]
    chunks = sdk("chat_stream", base(proxy), body=body)["chunks"]
    expected = recorded.events()[:-1]
    assert len(chunks) == len(expected)
    found, wanted = called(chunks), called(expected)
    assert [call[:2] for call in found.values()] == [call[:2] for call in wanted.values()]
    assert len({call[2] for call in found.values()}) == len(found)
    assert joined(chunks) == joined(expected)


def test_a_program_that_walks_away_stops_the_generation(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B050: the engine's request is aborted, and the row holds what was made."""
    vllm.faults.event_seconds = 0.05
    request_id = uuid.uuid4().hex
    given = {"headers": {"X-Request-Id": request_id}, "body": {"messages": MESSAGES, "max_tokens": 200}}
    assert len(sdk("chat_stream", base(proxy), stop_after=3, **given)["chunks"]) == 3
    row = row_of(proxy, request_id)
    assert row.status == "cancelled"
    assert 0 < len(row.completion_ids) == len(row.logprobs) < 100
    eventually(lambda: vllm.num_aborted == 1, 2)


def test_a_program_that_reads_to_the_end_is_completed(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B079: SDKs close right at [DONE]."""
    request_id = uuid.uuid4().hex
    given = {"headers": {"X-Request-Id": request_id}, "body": {"messages": MESSAGES, "max_tokens": 3}}
    sdk("chat_stream", base(proxy), **given)
    row = row_of(proxy, request_id)
    assert (row.status, row.is_delivered) == ("completed", True)


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


def test_a_failure_in_mid_stream_is_an_error_of_the_sdk(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B016 B018"""
    vllm.faults.die_after_events = 2
    error = sdk("chat_stream", base(proxy), body={"messages": MESSAGES})["error"]
    assert "APIError" in error["kinds"]
    assert "broke off" in error["message"]


@pytest.mark.parametrize("framing", FRAMINGS)
def test_no_framing_of_an_upstream_hurts_an_sdk(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, framing: str
) -> None:
    """B001 B003 B005 B006 B008 B078"""
    vllm.faults.raw_chunks = FRAMINGS[framing]
    seen = sdk("chat_stream", base(proxy), body={"messages": MESSAGES})
    assert "error" not in seen
    assert joined(seen["chunks"]) == "one two"


@pytest.mark.parametrize("size", [1, 7])
def test_characters_cut_anywhere_arrive_whole(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, size: int
) -> None:
    """B008"""
    vllm.replays, vllm.faults.chunk_bytes = [*load("chat_unicode")], size
    recorded = one("chat_unicode", "client", is_streamed=True)
    body = {key: value for key, value in recorded.asked.body.items() if key != "stream"}  # type: ignore[union-attr]
    chunks = sdk("chat_stream", base(proxy), body=body)["chunks"]
    assert joined(chunks) == joined(recorded.events()[:-1]) == "naïve 👋🏽 日本"


def test_bytes_that_are_no_utf8_hurt_no_sdk(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B078"""
    [first, *rest] = FRAMINGS["as vLLM writes"]
    vllm.faults.raw_chunks = [first.replace(b"one", b"one\xff"), *rest]
    seen = sdk("chat_stream", base(proxy), body={"messages": MESSAGES})
    assert "error" not in seen
    assert re.fullmatch(r"one.{1,3} two", joined(seen["chunks"]))


def test_models_are_listed_and_found_by_names_with_slashes(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B068 B069"""
    ids = sdk("models", base(proxy))["ids"]
    assert {"default", "default@base"} <= set(ids)
    assert sdk("model", base(proxy), id="default@base")["id"] == "default@base"
    error = sdk("model", base(proxy), id="Qwen/Qwen3-0.6B")["error"]
    assert ("NotFoundError" in error["kinds"], "Qwen/Qwen3-0.6B" in error["message"]) == (True, True)


def test_a_base_address_without_v1_or_with_a_slash_too_many_is_served(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B071 B073"""
    for address in (proxy.url, f"{proxy.url}//v1", f"{proxy.url}/v1/v1"):
        assert sdk("chat", address, body={"messages": MESSAGES, "max_tokens": 1})["reply"]["choices"]


def test_pooled_connections_outlive_the_sdks_five_seconds(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    """B074: the SDK's pool keeps a connection for 5 s; calls at that very moment must not fail."""
    assert sdk("idle", base(proxy), pauses=[4.9, 5.0, 5.1])["calls"] == 4


def test_completions_whole_and_streamed(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    body = {"prompt": ["Hello", "The sky"], "max_tokens": 3, "n": 2, "seed": 1}
    reply = sdk("completion", base(proxy), body=body)["reply"]
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    chunks = sdk("completion_stream", base(proxy), body=body)["chunks"]
    for choice in reply["choices"]:
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(c["text"] for c in mine) == choice["text"]
    assert not keys_in([reply, chunks]) & HIDDEN


def test_responses_whole_and_streamed(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B046 B048"""
    body = {"input": "Hi", "max_output_tokens": 3, "seed": 1}
    seen = sdk("response", base(proxy), body=body)
    reply = seen["reply"]
    assert seen["text"] == reply["output"][0]["content"][0]["text"] != ""
    assert (reply["input_messages"], reply["output"][0]["content"][0]["logprobs"]) == (None, None)
    events = sdk("response_stream", base(proxy), body=body)["events"]
    assert (events[0], events[-1]) == ("response.created", "response.completed")
    assert events.count("response.output_text.delta") == 3


def test_responses_call_tools(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    tools = [{"type": "function", "name": "sky", "parameters": {"type": "object"}}]
    body = {"input": "Hi", "tools": tools, "tool_choice": "required"}
    [call] = sdk("response", base(proxy), body=body)["reply"]["output"]
    assert (call["name"], json.loads(call["arguments"])) == ("sky", {"hue": "red"})
    second = [{"role": "user", "content": "Hi"}, call, {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}]  # fmt: skip
    assert sdk("response", base(proxy), body={"input": second, "tools": tools})["text"]


@pytest.mark.parametrize("given", ["text", ["a", "b"], [1, 2, 3], [[1], [2, 3]]])
def test_embeddings_come_from_a_server_that_has_them(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm, given: Any
) -> None:
    """B023 B025: every kind of input, in floats and in the base64 that SDKs ask for by themselves."""
    vllm.serves_embeddings = True
    count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
    vectors = sdk("embedding", base(proxy), body={"input": given})["vectors"]
    assert [len(vector) for vector in vectors] == [4] * count


def test_embeddings_of_a_server_that_generates_are_a_clear_404(
    sdk: Worker, proxy: RunningProxy, vllm: FakeVllm
) -> None:
    error = sdk("embedding", base(proxy), body={"input": "text"})["error"]
    assert "NotFoundError" in error["kinds"]
    assert "embeddings" in error["message"]
