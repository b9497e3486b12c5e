"""Recorded streams of the real vLLM, cut anywhere: the client gets the same bytes and the ledger the same record."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.records import ChoiceRecord
from proxy.reply.sse import EventReader
from proxy.surface.answer import ENDPOINTS
from proxy.surface.document import Document
from tests.corpus.recording import one
from tests.corpus.scenario import RECORDED_MODEL
from tests.proxy.running import settings_for
from tests.proxy.test_corpus import ANSWERED

SETTINGS = settings_for("postgresql://nobody@localhost/nothing", "http://127.0.0.1:1", Path())
CHATS = [name for name in ANSWERED if name.startswith("chat_")]
MOST_CUTS = 300


def raw_stream(name: str) -> bytes:
    """What vLLM sends to the proxy."""
    return one(name, is_streamed=True).raw


def relayed(name: str, pieces: Iterable[bytes]) -> tuple[bytes, list[ChoiceRecord]]:
    """What the scenario's client gets and what is recorded, if the stream comes in these pieces.

    A last frame that was cut in two cannot be read, and is dropped.
    """
    asked = one(name, "client", is_streamed=True).asked
    assert isinstance(asked.body, dict)
    document = Document.parse(json.dumps({"model": "m", **asked.body}).encode())
    endpoint = ENDPOINTS[asked.path]
    reply = endpoint.new_reply(endpoint.understand(document, SETTINGS), RECORDED_MODEL, "default@0")
    reader, seen = EventReader(), b""
    events = (event for piece in pieces for event in reader.feed(piece))
    for event in (*events, *reader.close()):
        try:
            seen += reply.event(event)
        except ValueError:
            continue
    return seen, reply.capture.records()


def cut(raw: bytes, places: Iterable[int]) -> list[bytes]:
    at = [0, *sorted({place % (len(raw) + 1) for place in places}), len(raw)]
    return [raw[start:end] for start, end in pairwise(at)]


@given(st.sampled_from(ANSWERED), st.lists(st.integers(0, 1 << 20), max_size=40))
@settings(max_examples=300)
def test_cuts_change_neither_the_reply_nor_the_record(name: str, places: list[int]) -> None:
    raw = raw_stream(name)
    assert relayed(name, cut(raw, places)) == relayed(name, [raw])


@pytest.mark.parametrize(
    "name", ["chat_unicode", "chat_reasoning", "chat_n3_ends", "responses_plain", "messages_plain"]
)
def test_cuts_through_every_part_of_a_stream(name: str) -> None:
    """B008: a character in two pieces, a line end in two pieces, a frame in two pieces."""
    raw = raw_stream(name)
    whole = relayed(name, [raw])
    assert relayed(name, [bytes([byte]) for byte in raw]) == whole
    for place in range(1, len(raw), len(raw) // MOST_CUTS + 1):
        assert relayed(name, cut(raw, [place])) == whole


@given(st.sampled_from(CHATS), st.integers(0, 1 << 20))
@settings(max_examples=150)
def test_a_stream_that_breaks_anywhere_leaves_a_beginning_of_the_record(name: str, place: int) -> None:
    """B050: what was made until then, ids and logprobs of one length."""
    raw = raw_stream(name)
    _, broken = relayed(name, [raw[: place % len(raw)]])
    _, whole = relayed(name, [raw])
    for partial, complete in zip(broken, whole, strict=False):
        ids, sampling_logprobs = partial.completion_ids or [], partial.sampling_logprobs or []
        assert len(ids) == len(sampling_logprobs)
        assert ids == (complete.completion_ids or [])[: len(ids)]
        assert sampling_logprobs == (complete.sampling_logprobs or [])[: len(ids)]
        assert (complete.text or "").startswith(partial.text or "")
