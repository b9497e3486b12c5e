"""Streams as openai's SDKs read them: framings, tools, hang-ups, failures."""

import re
import uuid

import pytest

from tests.corpus.recording import load, one
from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy, eventually
from tests.sdk.framings import FRAMINGS
from tests.sdk.seen import MESSAGES, base, called, joined, row_of
from tests.sdk.worker import Worker


def test_a_stream_is_the_whole_reply_piece_by_piece(sdk: Worker, proxy: RunningProxy, vllm: FakeVllm) -> None:
    """B015 B033 B056: three choices keep apart; each ends with its own finish reason."""
    body = {"messages": MESSAGES, "max_tokens": 4, "n": 3, "seed": 5, "stop": [" w5"]}
    whole = sdk("chat", base(proxy), body=body)["reply"]
    chunks = sdk("chat_stream", base(proxy), body=body)["chunks"]
    for choice in whole["choices"]:
        ends = [c["finish_reason"] for x in chunks for c in x["choices"] if c["index"] == choice["index"]]
        assert joined(chunks, choice["index"]) == choice["message"]["content"]
        assert (ends[-1], set(ends[:-1])) == (choice["finish_reason"], {None})


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
