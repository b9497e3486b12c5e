"""I1, held against the real vLLM: what the proxy makes of the reply that it asked for is, byte for byte, the reply
that the client would have got from vLLM itself, but for names, times and numbers of the cache.

The fake replays the recorded reply to the proxy's form of each scenario; the recorded reply to the client's form is
what must come out.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection

from ledger.database import database_address, sync_engine
from tests.conftest import drop_database, new_database
from tests.corpus.asking import SCENARIOS
from tests.corpus.recording import one
from tests.corpus.said import said
from tests.corpus.scenario import RECORDED_MODEL
from tests.fakes.vllm import FakeVllm, running_fake_vllm
from tests.proxy.running import RunningProxy, eventually, running_proxy, settings_for

# What may differ between any two calls of vLLM.
VARYING = [
    (re.compile(r'"(id|item_id|call_id)":"[a-z]+(-tool)?[-_][0-9a-f]+"'), r'"\1":"…"'),
    (re.compile(r'"(created|created_at)":\d+'), r'"\1":0'),
    (re.compile(r'"signature":"[0-9a-f]+"'), '"signature":"…"'),
    (re.compile(r'"(cached_tokens|cache_write_tokens)":\d+'), r'"\1":0'),
    (re.compile(r'"system_fingerprint":"[^"]+"'), '"system_fingerprint":"…"'),
    (re.compile(r'"logprob":-?[0-9.e-]+'), '"logprob":0'),
    (re.compile(r'"token_logprobs":\[[^]]*\]'), '"token_logprobs":[]'),
    (re.compile(r'"model":"[^"]+"'), '"model":"…"'),
]
# What vLLM writes for those who did not ask (null, but for the prompt of an echo), and we leave out.
UNASKED = re.compile(r',"(token_ids|prompt_token_ids|prompt_text)":(null|\[[0-9,]*\])')


def normal(text: str) -> str:
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return UNASKED.sub("", text)


NOT_SERVED = {"chat_echo", "responses_unknown_fields"}  # docs/fields.md: echo; conversation
ANSWERED = [
    scenario.name
    for scenario in SCENARIOS
    if isinstance(scenario.body, dict) and not scenario.is_single and "refused" not in scenario.name
    if scenario.name not in NOT_SERVED
]
WITH_IDS = [name for name in ANSWERED if name.startswith(("chat_", "completions_")) and "echo" not in name]


@pytest.fixture(scope="module")
def replaying() -> Iterator[FakeVllm]:
    with running_fake_vllm(RECORDED_MODEL) as fake:
        yield fake


@pytest.fixture(scope="module")
def corpus_proxy(
    administrator: Connection,
    template_url: str,
    replaying: FakeVllm,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningProxy]:
    url = new_database(administrator, str(database_address(template_url).database))
    engine = sync_engine(url)
    given = settings_for(url, replaying.url, tmp_path_factory.mktemp("corpus"), base_model=RECORDED_MODEL)
    with running_proxy(given, engine) as proxy:
        yield proxy
    engine.dispose()
    drop_database(administrator, url)


def sent(proxy: RunningProxy, vllm: FakeVllm, name: str, request_id: str, *, is_streamed: bool) -> Any:
    """The client's request through the proxy; the fake answers as the real server answered the proxy's.

    (Or the client's own, where nothing is added to it: an echo.)
    """
    vllm.replays = [one(name, form, is_streamed=is_streamed) for form in ("proxy", "client")]
    asked = vllm.replays[1].asked
    raw = json.dumps({"model": "gpt-4o", **asked.body}, ensure_ascii=False).encode()  # type: ignore[dict-item]
    response = proxy.client.post(asked.path, content=raw, headers={"X-Request-Id": request_id})
    assert response.status_code == 200, response.text
    return response


def expected(name: str, *, is_streamed: bool) -> str:
    """What the client would have got. Messages have no seed, and nothing is added to them: the same reply comes out."""
    form = "proxy" if name.startswith("messages_") else "client"
    return one(name, form, is_streamed=is_streamed).raw.decode()


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("name", ANSWERED)
def test_a_client_sees_what_vllm_itself_would_have_said(
    corpus_proxy: RunningProxy, replaying: FakeVllm, name: str, is_streamed: bool
) -> None:
    """I1"""
    response = sent(corpus_proxy, replaying, name, f"relay-{name}-{is_streamed}", is_streamed=is_streamed)
    found = normal(response.text).split("\n\n")
    wanted = normal(expected(name, is_streamed=is_streamed)).split("\n\n")
    if "prompts" in name:  # the events of several prompts interleave as they come
        found, wanted = sorted(found), sorted(wanted)
    assert found == wanted


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("name", WITH_IDS)
def test_the_ledger_holds_what_vllm_sampled(
    corpus_proxy: RunningProxy, replaying: FakeVllm, name: str, is_streamed: bool
) -> None:
    """I3: ids, logprobs, text and finish of each choice, streamed or not, as the real server gave them."""
    request_id = f"capture-{name}-{is_streamed}"
    sent(corpus_proxy, replaying, name, request_id, is_streamed=is_streamed)
    choices = said(one(name, is_streamed=is_streamed))
    query = "SELECT * FROM exchanges WHERE request_id = :name ORDER BY choice_index"
    rows = eventually(
        lambda: len(found := corpus_proxy.rows(query, name=request_id)) == len(choices) and found
    )
    for row, (index, choice) in zip(rows, sorted(choices.items()), strict=True):
        assert (row.choice_index, row.status) == (index, "completed")
        assert list(row.completion_ids or ()) == choice.ids
        assert list(row.logprobs or ()) == pytest.approx(choice.sampling_logprobs, rel=1e-6)
        assert (row.completion_text, row.finish_reason) == (choice.text, choice.finish_reason)
