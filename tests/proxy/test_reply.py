"""What the client sees and what the ledger gets, on replies of the real vLLM."""

import json
from itertools import pairwise
from typing import Any

import pytest

from ledger.records import ChoiceRecord
from proxy.reply.capture import Capture
from proxy.reply.choices import ChoicesReply
from proxy.reply.sse import DONE_EVENT, EventReader
from proxy.settings import ProxySettings
from proxy.surface.chat import CHAT
from proxy.surface.document import Document
from tests.proxy.recorded import STREAMS, WHOLE, recorded

QUIET = {"messages": [], "model": "gpt-4o"}


SETTINGS = ProxySettings(database_url="postgresql://", upstream_urls="http://vllm", base_model="base")


def reply_to(body: dict[str, Any], dispatched: str = "slipstream-base") -> ChoicesReply:
    request = CHAT.understand(Document.parse(json.dumps(body).encode()), SETTINGS)
    reply = CHAT.new_reply(request, dispatched, "default@3")
    assert isinstance(reply, ChoicesReply)
    return reply


def relay(raw: bytes, reply: ChoicesReply, places: tuple[int, ...] = ()) -> bytes:
    """Without `[DONE]`."""
    reader, out = EventReader(), b""
    bounds = [0, *places, len(raw)]
    for a, b in pairwise(bounds):
        for event in reader.feed(raw[a:b]):
            out += reply.event(event)
    return out.removesuffix(DONE_EVENT)


@pytest.mark.parametrize("name", WHOLE)
def test_i1_a_client_that_asked_for_nothing_sees_a_plain_reply(name: str) -> None:
    """I1: the recorded reply with ids and logprobs becomes what vLLM writes without them, byte for byte."""
    _, raw = recorded(name)
    seen = reply_to(QUIET).whole(raw)
    body = json.loads(seen)
    assert not {"prompt_token_ids", "prompt_text"} & body.keys()
    for choice in body["choices"]:
        assert "token_ids" not in choice
        assert choice["logprobs"] is None
    plain = json.loads(recorded("chat_plain")[1])
    assert list(body) == [key for key in plain if key not in {"prompt_token_ids", "prompt_text"}]
    assert list(body["choices"][0]) == [key for key in plain["choices"][0] if key != "token_ids"]


def test_i1_a_client_that_asked_for_everything_sees_every_byte() -> None:
    asked, raw = recorded("chat_logprobs_top3")
    seen = reply_to(asked, "another").whole(raw)
    assert seen == raw
    assert json.loads(seen)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]


def test_i1_the_streamed_reply_is_the_plain_one_but_for_model_and_our_fields() -> None:
    """I1, B013, B033: no usage event, no usage keys, no ids, deltas untouched."""
    _, raw = recorded("stream_with_adapter")
    out = relay(raw, reply_to({**QUIET, "stream": True}, "probe@0"))
    expected = raw.replace(b'"model":"probe@0"', b'"model":"default@3"').replace(b"data: [DONE]\n\n", b"")
    for event in expected.split(b"\n\n")[:-1]:
        body = json.loads(event[6:])
        for choice in body["choices"]:
            choice.pop("token_ids", None)
            choice["logprobs"] = None
        body.pop("prompt_token_ids", None)
        body.pop("prompt_text", None)
        compact = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        first, _, out = out.partition(b"\n\n")
        assert first == b"data: " + compact
    assert not out


def test_i1_usage_is_seen_by_those_who_asked() -> None:
    """B010 B066: the event with choices [] passes, and its numbers are recorded."""
    asked, raw = recorded("stream_n1_ids_logprobs_usage")
    reply = reply_to(asked)
    out = relay(raw, reply)
    assert b'"choices":[],"usage":{"prompt_tokens":21,"total_tokens":27,"completion_tokens":6}' in out
    assert reply.capture.num_prompt_tokens == 21
    quiet = relay(raw, reply_to({**QUIET, "stream": True}))
    assert b'"usage"' not in quiet


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_stream_cut_at_every_byte_gives_the_same_record_and_the_same_bytes(name: str) -> None:
    asked, raw = recorded(name)
    body = {**QUIET, "stream": True, "n": asked.get("n", 1)}
    once = reply_to(body)
    expected = relay(raw, once)
    for place in range(0, len(raw), 7):
        again = reply_to(body)
        assert relay(raw, again, (place,)) == expected
        assert again.capture.records() == once.capture.records()
        assert again.capture.prompt_ids == once.capture.prompt_ids


def ids_and_text(choices: list[ChoiceRecord]) -> list[tuple[Any, ...]]:
    return [
        (c.index, c.completion_ids, c.text, c.finish_reason, len(c.sampling_logprobs or [])) for c in choices
    ]


def test_i3_ids_and_logprobs_are_the_numbers_that_vllm_wrote() -> None:
    """I3, B056: two choices, streamed and whole, keep separate buffers and end in the same record."""
    two = {**QUIET, "n": 2}
    unstreamed_reply, streamed_reply = reply_to(two), reply_to({**two, "stream": True})
    unstreamed_reply.whole(recorded("chat_n2_ids_logprobs")[1])
    relay(recorded("stream_n2_ids_logprobs")[1], streamed_reply)
    whole, streamed = unstreamed_reply.capture, streamed_reply.capture
    assert ids_and_text(whole.records()) == ids_and_text(streamed.records())
    first, second = whole.records()
    assert first.completion_ids == [13646, 654, 4341, 284, 971, 2548]
    assert first.sampling_logprobs is not None
    assert first.sampling_logprobs[0] == -5.218978404998779
    assert second.text == "I'm glad I could mention"
    assert whole.prompt_ids == streamed.prompt_ids
    assert streamed.is_complete


def test_i3_what_vllm_did_not_write_stays_none() -> None:
    reply = reply_to(QUIET)
    reply.whole(recorded("chat_plain")[1])
    capture = reply.capture
    [choice] = capture.records()
    assert (choice.completion_ids, choice.sampling_logprobs, capture.prompt_ids) == (None, None, None)
    assert capture.num_prompt_tokens == 21


def test_a_stop_string_leaves_more_ids_than_text() -> None:
    """B058: the trainer uses the ids."""
    reply = reply_to(QUIET)
    reply.whole(recorded("chat_stop_string")[1])
    capture = reply.capture
    [choice] = capture.records()
    assert (choice.text, choice.stop_reason, len(choice.completion_ids or ())) == (
        "Color may vary and ",
        "e",
        5,
    )


def event(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def test_parallel_tool_calls_are_not_merged_and_empty_ids_continue() -> None:
    """B040: index 0 twice with two ids is two calls; a continuation may carry id ""."""
    capture = Capture(1)
    for index, call_id, text in [(0, "a", "{"), (0, "", "}"), (0, "b", "{}"), (1, "c", ""), (1, None, "[]")]:
        function = {"name": call_id, "arguments": text} if call_id else {"arguments": text}
        capture.add(
            event(tool_calls=[{"index": index, "id": call_id, "type": "function", "function": function}])
        )
    [choice] = capture.records()
    assert choice.response is not None
    calls = [(c["id"], c["function"]["arguments"]) for c in choice.response["tool_calls"]]
    assert calls == [("a", "{}"), ("b", "{}"), ("c", "[]")]


def test_empty_deltas_unknown_keys_and_empty_finish_reasons_are_legal() -> None:
    """B031 B041 B060: the log goes on, the finish reason stays unknown, empty content is content."""
    capture = Capture(1)
    capture.add({"x_vendor": 1, **event()})
    capture.add(event(content="", reasoning="hm"))
    capture.add({"choices": [{"index": 0, "delta": {}, "finish_reason": ""}]})
    [choice] = capture.records()
    assert choice.finish_reason is None
    assert choice.response == {"role": "assistant", "reasoning": "hm", "content": ""}
    assert not capture.is_complete


def test_an_infinite_logprob_is_recorded_as_it_is() -> None:
    """B063: JSON has no Infinity, Python's reader does."""
    raw = b'{"choices":[{"index":0,"message":{},"logprobs":{"content":[{"token":"x","logprob":-Infinity}]}}]}'
    reply = reply_to(QUIET)
    reply.whole(raw)
    assert reply.capture.records()[0].sampling_logprobs == [float("-inf")]


def test_a_chunk_without_choices_gets_an_empty_list() -> None:
    """B011: strict clients refuse a chunk without the key."""
    [chunk] = EventReader().feed(b'data: {"id":"x"}\n\n')
    seen = reply_to({**QUIET, "stream": True}).event(chunk)
    assert seen == b'data: {"id":"x","choices":[]}\n\n'


def test_another_models_name_is_not_covered_up() -> None:
    """I2, I8: only the name that was dispatched becomes the public one."""
    reply = reply_to(QUIET, dispatched="default@3")
    seen = reply.whole(recorded("chat_plain")[1])
    assert b'"model":"slipstream-base"' in seen
    assert reply.capture.answered_model == "slipstream-base"
