"""Bodies are written anew at marks or by span, with one result; what is not edited stays the client's bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import InvalidRequestError
from proxy.surface.document import Document
from proxy.surface.request import ModelRequest

SET = {"model": '"default@3"', "return_token_ids": "true", "logprobs": "true"}


def both(raw: bytes, doomed: frozenset[str] = frozenset()) -> None:
    try:
        read = Document.parse(raw)
    except InvalidRequestError:
        with pytest.raises(InvalidRequestError):
            Document._scanned(raw)
        return
    scanned = Document._scanned(raw)
    assert repr(read.values) == repr(scanned.values)
    rewritten = read.rewritten(SET, doomed)
    assert rewritten == scanned._by_span(SET, doomed)
    expected = {
        **{k: v for k, v in scanned.values.items() if k not in doomed},
        **{k: json.loads(v) for k, v in SET.items()},
    }
    assert repr(sorted(json.loads(rewritten.decode("utf-8", "surrogateescape")).items())) == repr(
        sorted(expected.items())
    )


keys = st.sampled_from(["model", "messages", "logprobs", "priority", "x", 'a"model"', "mod\\el"]) | st.text(
    max_size=3
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just('"model"'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
bodies = st.dictionaries(keys, values, max_size=5)


@given(bodies, st.booleans(), st.sampled_from([None, 1]), st.sampled_from([b"", b" ", b"\n\t"]))
def test_any_body(body: dict[str, Any], ascii_only: bool, indent: int | None, space: bytes) -> None:
    raw = json.dumps(body, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    both(space + raw + space)
    both(raw, frozenset({"priority", "x"}))


@given(bodies, st.data())
def test_any_byte_put_anywhere(body: dict[str, Any], data: st.DataObject) -> None:
    raw = json.dumps({"model": "m", **body}).encode()
    at = data.draw(st.integers(0, len(raw)))
    extra = data.draw(
        st.sampled_from(
            [
                b'"',
                b"}",
                b"{",
                b",",
                b":",
                b" ",
                b"\\",
                b"NaN",
                b"\xff",
                b'"model":"x",',
                b'"mod\\u0065l":"y",',
            ]
        )
    )
    both(raw[:at] + extra + raw[at + data.draw(st.integers(0, 2)) :])


@pytest.mark.parametrize(
    "raw",
    [
        b'{"mod\\u0065l":"other@3","metadata":{"model":"x"}}',
        b'{"model":"a","model":"b"}',
        b'{"metadata":{"model":"x"}}',
        b'{"model":{"x":1}}',
        b'{"model":null}',
        b'{"model": "a\\"b" }',
        b'{"a":1,"n":NaN,"model":"m"}',
        b'{"text":"\\ud83d","model":"m"}',
        b'{"text":"\xff","model":"m"}',
        b'{"big":123456789012345678901234567890,"model":"m"}',
        b"{}",
        b" { } ",
    ],
)
def test_odd_bodies(raw: bytes) -> None:
    """No spelling of a key leads a caller to a model of another's."""
    both(raw)


def test_a_body_without_members_gets_ours() -> None:
    assert (
        Document.parse(b"{}").rewritten(SET)
        == b'{"model":"default@3","return_token_ids":true,"logprobs":true}'
    )


def test_a_client_that_asked_for_the_replys_id_gets_ours() -> None:
    request = ModelRequest(
        Document.parse(b'{"request_id":"theirs"}'), is_streamed=False, asked=None, reply_id_field="request_id",  # type: ignore[arg-type]
        dropped=frozenset({"request_id"}),
    )  # fmt: skip
    assert request.upstream_body(
        "m", "7" * 32, is_captured=True
    ) == b'{"request_id":"resp_%b","model":"m"}' % (b"7" * 32)


@pytest.mark.parametrize(
    ("written", "is_set"),
    [("true", True), ('"true"', True), ('"yes"', True), ("1", True), ("false", False), ('"False"', False), ('"0"', False),
     ('"off"', False), ("null", False), ("0", False)],
)  # fmt: skip
def test_flags_are_read_as_vllm_reads_them(written: str, is_set: bool) -> None:
    """pydantic takes "false" for false."""
    document = Document.parse(b'{"stream":%b}' % written.encode())
    assert document.flag("stream") is is_set
    assert not document.flag("logprobs")
