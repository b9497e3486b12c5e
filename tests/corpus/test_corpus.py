"""The corpus is whole, streams agree with whole replies in it, and the fake replays and resembles it."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.corpus.asking import SCENARIOS, ask, ask_all, connected
from tests.corpus.recording import Recorded, everything, load, names, one
from tests.corpus.said import said
from tests.corpus.scenario import RECORDED_MODEL, Scenario
from tests.corpus.shape import difference, reply_shape, shape_of
from tests.fakes.vllm import FakeVllm, running_fake_vllm

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

# What the fake makes up by itself in vLLM's shapes; for everything else there are replays.
MADE_UP = [
    "chat_plain", "chat_logprobs", "chat_logprobs_top", "chat_ids", "chat_usage", "chat_usage_n3",
    "chat_usage_continuous", "chat_refused_temperature", "chat_refused_greedy_n2", "chat_refused_top_logprobs",
    "chat_refused_model", "chat_refused_empty_messages", "chat_odd_contents", "chat_unknown_fields",
    "completions_plain", "completions_n2", "completions_two_prompts", "completions_ids_prompt", "completions_ids_prompts",
    "completions_logprobs_0", "completions_logprobs_2", "completions_usage", "completions_refused_prompt",
    "completions_refused_temperature", "completions_refused_model",
    "responses_plain", "responses_instructions", "responses_logprobs", "responses_messages", "responses_second_turn",
    "responses_tool_required", "responses_unknown_fields", "responses_refused_previous", "responses_refused_input",
    "responses_refused_temperature", "responses_refused_model",
    "messages_plain", "messages_system", "messages_tool_any", "messages_refused_max_tokens", "messages_refused_no_max_tokens",
    "messages_refused_model", "messages_refused_no_messages", "messages_count_tokens",
    "embeddings_refused", "score_refused", "models_one", "unknown_route",
]  # fmt: skip


def test_every_scenario_is_recorded_as_it_is_asked_today() -> None:
    assert names() == sorted(BY_NAME)
    for name, scenario in BY_NAME.items():
        assert [recorded.asked for recorded in load(name)] == [*scenario.asked()], f"record {name} again"


def answered() -> list[str]:
    """Chats and completions that were not refused."""
    found = [name for name in names() if name.startswith(("chat_", "completions_")) and len(load(name)) > 1]
    return [name for name in found if all(recorded.status == 200 for recorded in load(name))]


@pytest.mark.parametrize("name", answered())
def test_a_stream_says_what_the_whole_reply_says(name: str) -> None:
    """The seed is the same, so is the answer: what the proxy captures from either must agree too."""
    whole, streamed = said(one(name)), said(one(name, is_streamed=True))
    assert whole.keys() == streamed.keys()
    for index, choice in whole.items():
        other = streamed[index]
        assert (choice.text, choice.ids) == (other.text, other.ids)
        assert choice.sampling_logprobs == pytest.approx(other.sampling_logprobs, abs=1e-3)


@pytest.fixture(scope="module")
def replaying() -> Iterator[FakeVllm]:
    with running_fake_vllm(RECORDED_MODEL) as fake:
        fake.replays = [recorded for _, recorded in everything()]
        yield fake


def ask_fake(fake: FakeVllm, scenario: Scenario) -> list[Recorded]:
    async def asked() -> list[Recorded]:
        async with connected(fake.url) as session:
            return await ask_all(session, scenario, RECORDED_MODEL)

    return asyncio.run(asked())


def ask_fake_once(fake: FakeVllm, recorded: Recorded, model: str) -> Recorded:
    async def asked() -> Recorded:
        async with connected(fake.url) as session:
            return await ask(session, recorded.asked, model)

    return asyncio.run(asked())


@pytest.mark.parametrize("name", ["chat_plain", "chat_unicode", "chat_tool_parallel", "responses_stop", "messages_plain",
                                  "chat_refused_schema", "messages_count_tokens", "models_options", "chat_refused_json"])  # fmt: skip
def test_the_fake_replays_bytes_and_boundaries(replaying: FakeVllm, name: str) -> None:
    replayed = ask_fake(replaying, BY_NAME[name])
    for was, recorded in zip(replayed, load(name), strict=True):
        assert (was.status, was.chunks) == (recorded.status, recorded.chunks)


def test_a_replay_is_cut_anew_and_keeps_its_bytes(replaying: FakeVllm) -> None:
    recorded = one("chat_unicode", is_streamed=True)
    replaying.faults.chunk_bytes = 1000
    try:
        replayed = ask_fake_once(replaying, recorded, RECORDED_MODEL)
    finally:
        replaying.faults.chunk_bytes = None
    assert replayed.raw == recorded.raw
    assert len(replayed.chunks) == -(-len(recorded.raw) // 1000)


def test_a_replay_answers_as_the_model_that_was_asked(replaying: FakeVllm) -> None:
    replaying.adapters["default@1"] = "/nowhere"
    body = json.loads(ask_fake_once(replaying, one("chat_plain"), "default@1").raw)
    assert body == {**one("chat_plain").json(), "model": "default@1"}


@pytest.mark.parametrize("name", MADE_UP)
def test_what_the_fake_makes_up_has_the_recorded_shape(name: str) -> None:
    with running_fake_vllm(RECORDED_MODEL) as fake:
        made_up = ask_fake(fake, BY_NAME[name])
    for made, recorded in zip(made_up, load(name), strict=True):
        assert not difference(reply_without_vary(recorded), reply_without_vary(made)), recorded.asked


def reply_without_vary(recorded: Recorded) -> Any:
    """Without the header that only uvicorn's CORS layer adds, and the piece that one of the two may cut differently."""
    status, headers, is_broken, body = reply_shape(recorded)
    kind = {key: value.partition(";")[0] for key, value in headers}.get("content-type")
    return status, kind, is_broken, body


def test_shapes_keep_order_and_kinds_and_drop_the_rest() -> None:
    assert shape_of({"a": 1, "b": [1.5, 2.5]}) == shape_of({"a": 7, "b": [0.5]})
    assert shape_of({"a": 1, "b": 2}) != shape_of({"b": 2, "a": 1})
    assert shape_of({"a": None}) != shape_of({"a": 1}) != shape_of({"a": True})
    assert shape_of({" the": -1.5}) == shape_of({" a": -2.0, " b": -1.0})
