import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.request_body import derived
from tests.ledger.calls import a_call
from tests.ledger.test_text import ANY_JSON, ANY_TEXT

NUMBERS = st.sampled_from(
    ["NaN", "-Infinity", "1e400", "-0.0", "1E5", "18446744073709551616", "0.1", '"\\ud800"']
)


def read(raw: bytes, key: str | None = "messages") -> tuple[Any, Any]:
    call = derived(a_call(messages=None, request={}, raw_request=raw, prompt_key=key))
    assert call.raw_request is None
    return call.messages, call.request


@given(st.dictionaries(ANY_TEXT, ANY_JSON, max_size=3), NUMBERS, st.booleans())
def test_a_body_reads_as_python_reads_it(rest: dict[str, Any], odd: str, is_ascii: bool) -> None:
    rest.pop("messages", None)
    text = json.dumps({**rest, "odd": "ODD", "messages": [rest]}, ensure_ascii=is_ascii).replace('"ODD"', odd)
    body = json.loads(text)
    messages, request = read(text.encode("utf-8", "surrogatepass"))
    if is_ascii:
        assert repr((messages, request)) == repr((body.pop("messages"), body))


def test_bytes_that_are_no_utf_8_survive() -> None:
    messages, _ = read(b'{"messages": ["\xff"]}')
    assert messages[0].encode("utf-8", "surrogateescape") == b"\xff"


@pytest.mark.parametrize(
    ("raw", "key", "messages", "request_"),
    [
        (b'{"input": "hi", "n": 1}', "input", ["hi"], {"n": 1}),
        (b'{"input": null}', "input", None, {}),
        (b'{"prompt": "hi"}', None, None, {"prompt": "hi"}),
        (b"[1]", "messages", None, {"body": [1]}),
        (b"{", "messages", None, {"body": "{"}),
    ],
)
def test_what_is_no_list_of_messages_is_kept(
    raw: bytes, key: str | None, messages: Any, request_: Any
) -> None:
    assert read(raw, key) == (messages, request_)
