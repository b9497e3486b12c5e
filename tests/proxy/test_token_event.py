"""The pattern for token events gives what the general way gives, byte for byte and id for id, or steps aside."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.reply.choices import ChoicesReply
from proxy.reply.sse import Event, EventReader
from proxy.surface.request import Asked
from tests.proxy.recorded import recorded

HEAD = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"model":"base","choices":[{"index":'
ROLE = f'{HEAD}0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],"prompt_token_ids":[1,2]}}'
TOKEN = '{"token":%s,"logprob":%s,"bytes":[32,97],"top_logprobs":[]}'


def token_event(  # noqa: PLR0917 - all that varies
    index: object = 0,
    text: str = '" a"',
    token: str = '" a"',
    logprob: str = "-0.5",
    ids: str = "7",
    tail: str = "",
) -> str:
    """As vLLM writes it; `text` and `token` are JSON strings."""
    logprobs = f'{{"content":[{TOKEN % (token, logprob)}]}}'
    return f'{HEAD}{index},"delta":{{"content":{text}}},"logprobs":{logprobs},"finish_reason":null,"token_ids":[{ids}]}}]{tail}}}'


def replies(asked: Asked | None = None) -> tuple[ChoicesReply, ChoicesReply]:
    """One with the pattern, one without."""
    made = [
        ChoicesReply(asked or Asked(usage=False), "base", "default@3", num_choices=2, is_streamed=True)
        for _ in range(2)
    ]
    made[1]._token_events = None
    return made[0], made[1]


def seen(reply: ChoicesReply, data: str) -> bytes | str:
    try:
        return reply.event(Event(data.encode("utf-8", "surrogateescape")))
    except ValueError:
        return "dropped"


def same(*events: str) -> None:
    fast, general = replies()
    for data in (ROLE, *events):
        assert seen(fast, data) == seen(general, data)
    assert fast.capture.records() == general.capture.records()
    assert fast.capture.has_generated == general.capture.has_generated
    assert fast.capture.answered_model == general.capture.answered_model


json_strings = st.text().map(json.dumps) | st.text().map(lambda text: json.dumps(text, ensure_ascii=False))
numbers = st.floats(allow_nan=False, allow_infinity=False, max_value=0).map(repr)
ids = st.integers(0, 1 << 40).map(str)
events = st.builds(token_event, st.integers(0, 3), json_strings, json_strings, numbers, ids)


@given(st.lists(events | st.just(ROLE), max_size=5))
def test_any_stream_of_tokens(stream: list[str]) -> None:
    same(*stream)


@given(st.data())
def test_any_character_put_anywhere(data: st.DataObject) -> None:
    """Nothing is taken that is not JSON, and nothing is read otherwise than a parser would read it."""
    text = data.draw(events)
    at = data.draw(st.integers(0, len(text)))
    extra = data.draw(st.sampled_from([*'{}[]",:\\ 0-.e1\x00\x1f\u00e9', "null", "\\u12", "\\q", "\udcff"]))
    removed = data.draw(st.integers(0, 2))
    same(text[:at] + extra + text[at + removed :], token_event())


@pytest.mark.parametrize(
    "odd",
    [
        token_event(tail=',"usage":{"prompt_tokens":2}'),
        token_event(tail=',"x_vendor":1'),
        token_event(ids="7,8"),
        token_event(ids=""),
        token_event(ids="007"),
        token_event(logprob="-00.5"),
        token_event(logprob="-9999.0"),
        token_event(logprob="-Infinity"),
        token_event(text='"\\ud83d"'),
        token_event(text="null"),
        token_event().replace('"delta"', '"x":1,"delta"'),
        token_event().replace('"model":"base"', '"model":"another"'),
        token_event().replace('"finish_reason":null', '"finish_reason":"stop","stop_reason":"END"'),
        token_event().replace('"finish_reason":null', '"finish_reason":"stop","stop_reason":null'),
    ],
)
def test_odd_events(odd: str) -> None:
    fast, general = replies()
    for data in (ROLE, odd, token_event()):
        assert seen(fast, data) == seen(general, data)
    assert fast.capture.records() == general.capture.records()


@pytest.mark.parametrize("name", ["stream_with_adapter", "stream_n2_ids_logprobs"])
def test_it_takes_the_events_of_the_real_server(name: str) -> None:
    """Not a proof of speed, but of being used at all: all events but each choice's first and the end."""
    body, raw = recorded(name)
    fast, _ = replies()
    taken = 0
    for event in EventReader().feed(raw):
        assert fast._token_events is not None
        taken += fast._token_events.event(event) is not None
        fast.event(event)
    assert taken == 6 * body.get("n", 1)


def test_those_who_asked_for_ids_get_them() -> None:
    fast, general = replies(Asked(token_ids=True, usage=False))
    for data in (ROLE, token_event()):
        assert seen(fast, data) == seen(general, data)
    assert b'"token_ids":[7]' in bytes(seen(fast, token_event()))  # type: ignore[arg-type]


def test_a_stream_that_names_two_models_is_no_version_of_ours() -> None:
    """I2: not only its first event counts."""
    fast, _ = replies()
    for data in (ROLE, token_event(), token_event().replace('"model":"base"', '"model":"another"')):
        fast.event(Event(data.encode()))
    assert fast.capture.answered_model == "base, another"


def any_choice(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None, "token_ids": [1]}]}


def test_an_event_that_only_ids_asked_for_is_not_shown_but_recorded() -> None:
    """vLLM writes `delta: {}` while a parser holds tokens back, but only if ids were asked for."""
    reply, _ = replies()
    assert reply.event(Event(json.dumps(any_choice()).encode())) == b""
    assert reply.event(Event(json.dumps(any_choice(content="a")).encode())) != b""
    assert reply.capture.records()[0].completion_ids == [1, 1]
    asking, _ = replies(Asked(token_ids=True))
    assert asking.event(Event(json.dumps(any_choice()).encode())) != b""
