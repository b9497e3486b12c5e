"""Cutting ids and logprobs out as text gives what parsing everything gives, byte for byte and id for id."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.reply.choices import ChoicesReply
from proxy.reply.token_spans import cut_prompt_ids, cut_tokens
from proxy.surface.request import Asked
from tests.proxy.recorded import WHOLE, recorded


def both(raw: bytes, num_choices: int = 2) -> None:
    spans = ChoicesReply(Asked(), "base", "default@3", num_choices=num_choices)
    general = ChoicesReply(Asked(), "base", "default@3", num_choices=num_choices, is_chat=False)
    outcomes = []
    for reply in (spans, general):
        try:
            outcomes.append((reply.whole(raw), reply.capture.records(), list(reply.capture.prompt_ids or ())))
        except ValueError:
            outcomes.append(("no JSON",))  # type: ignore[arg-type]
    assert outcomes[0] == outcomes[1]


def compact(body: Any, *, ascii_only: bool = False) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=ascii_only).encode()


ids = st.lists(st.integers(0, 1 << 31), max_size=4)
numbers = st.floats(max_value=0, allow_nan=False, allow_infinity=False)
tricky = st.text() | st.sampled_from(
    [
        ',"logprobs":{"content":[',
        '"}]},"finish_reason":',
        ',"token_ids":[1]',
        '\\,"prompt_token_ids":[7]',
        "]",
        "\\",
    ]
)


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    logprobs = [
        {"token": draw(tricky), "logprob": draw(numbers), "bytes": [1], "top_logprobs": []}
        for _ in range(draw(st.integers(0, 3)))
    ]
    return {
        "index": draw(st.integers(0, 3)),
        "message": {"role": "assistant", "content": draw(tricky), "reasoning": draw(tricky)},
        "logprobs": draw(st.just({"content": logprobs}) | st.none()),
        "finish_reason": "stop",
        "stop_reason": draw(tricky | st.none()),
        "token_ids": draw(ids | st.none()),
    }


bodies = st.fixed_dictionaries(
    {"id": tricky, "model": st.just("base"), "choices": st.lists(choices(), max_size=3), "prompt_token_ids": ids | st.none(),
     "prompt_text": tricky | st.none(), "x_vendor": tricky}
)  # fmt: skip


@given(bodies, st.booleans())
def test_any_reply_as_vllm_writes_it(body: dict[str, Any], ascii_only: bool) -> None:
    both(compact(body, ascii_only=ascii_only))


@given(bodies, st.data())
def test_any_byte_put_anywhere(body: dict[str, Any], data: st.DataObject) -> None:
    raw = compact(body)
    at = data.draw(st.integers(0, len(raw)))
    extra = data.draw(
        st.sampled_from([b'"', b"[", b"]", b"{", b"}", b",", b"0", b"\\", b" ", b"\xff", b'"token_ids":[5],'])
    )
    removed = data.draw(st.integers(0, 2))
    both(raw[:at] + extra + raw[at + removed :])


@pytest.mark.parametrize("name", WHOLE)
def test_replies_of_the_real_server(name: str) -> None:
    both(recorded(name)[1])


def test_it_takes_the_reply_of_the_real_server() -> None:
    raw = recorded("chat_n2_ids_logprobs")[1]
    rest, tokens = cut_tokens(raw)
    assert [len(found) for found, _ in tokens] == [6, 6]
    assert len(rest) < len(raw) / 2
    assert b"prompt_token_ids" not in cut_prompt_ids(rest)[0]


@pytest.mark.parametrize("logprob", ["-Infinity", "NaN", "1e999", "007", '"-1"', "null"])
def test_odd_numbers_are_left_to_the_parser(logprob: str) -> None:
    token = f'{{"token":"x","logprob":{logprob}}}'
    tail = '"finish_reason":"stop","token_ids":[1]}]}'
    raw = f'{{"choices":[{{"index":0,"message":{{}},"logprobs":{{"content":[{token}]}},{tail}'.encode()
    assert cut_tokens(raw) == (raw, [])
    reply = ChoicesReply(Asked(), "base", "default@3")
    if logprob == "NaN":
        reply.whole(raw)
        assert math.isnan((reply.capture.records()[0].sampling_logprobs or [0.0])[0])
    else:
        both(raw)


def test_ids_of_a_prompt_that_are_no_list_of_numbers_are_left_to_the_parser() -> None:
    for text in (b"", b"1,,2", b",1", b"1,", b"1.5", b"-1", b'"1"'):
        raw = b'{"choices":[],"prompt_token_ids":[' + text + b"]}"
        assert cut_prompt_ids(raw) == (raw, None)
        both(raw)
