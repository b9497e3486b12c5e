import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.splice import document, edited
from tests.proxy.removal import without_members

KEYS = st.sampled_from(["a", "b", "c", "token_ids", "é", "\ud83d", "\x00", '"', ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | KEYS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])
PATHS = st.lists(st.lists(KEYS | st.just("*"), min_size=1, max_size=3).map(tuple), max_size=4)


def plainly_without(value: Any, path: tuple[str, ...]) -> Any:
    """The same removal on parsed values."""
    first, rest = path[0], path[1:]
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if rest or key != first}
        return {
            key: plainly_without(item, rest) if rest and key == first else item for key, item in kept.items()
        }
    if isinstance(value, list) and first == "*" and rest:
        return [plainly_without(item, rest) for item in value]
    return value


@given(body=OBJECTS, style=STYLES, is_ascii=st.booleans(), paths=PATHS)
def test_removing_members_by_span_equals_removing_them_from_the_parsed_value(
    body: Any, style: tuple[str, str], is_ascii: bool, paths: list[tuple[str, ...]]
) -> None:
    text = json.dumps(body, separators=style, ensure_ascii=is_ascii or "\\ud83d" in repr(body))
    raw = f" {text}\n".encode()
    expected = body
    for path in paths:
        expected = plainly_without(expected, path)
    assert json.loads(without_members(raw, paths)) == expected


@given(body=OBJECTS, style=STYLES)
def test_what_is_not_removed_keeps_its_bytes(body: Any, style: tuple[str, str]) -> None:
    raw = json.dumps(body, separators=style).encode()
    assert without_members(raw, [("no such key",), ("c", "no such key")]) == raw


def test_numbers_escapes_order_and_invalid_utf8_survive() -> None:
    raw = b'{"z":1.0e-05,"drop":[1,{"x":2}] , "a":"\\u00e9\\ud83d","n":-0.0,"bad":"\xff\xfe","big":1e400}'
    kept = b'{"z":1.0e-05 , "a":"\\u00e9\\ud83d","n":-0.0,"bad":"\xff\xfe","big":1e400}'
    assert without_members(raw, [("drop",)]) == kept


@pytest.mark.parametrize("doomed", [("a",), ("a", "b"), ("b", "c"), ("c",), ("a", "c"), ("a", "b", "c")])
def test_any_set_of_members_can_go_with_its_commas(doomed: tuple[str, ...]) -> None:
    body = {"a": 1, "b": [2], "c": {"d": 3}}
    raw = json.dumps(body).encode()
    left = {key: value for key, value in body.items() if key not in doomed}
    assert json.loads(without_members(raw, [(key,) for key in doomed])) == left


def test_a_key_that_stands_twice_goes_twice() -> None:
    assert without_members(b'{"a":1,"b":2,"a":3}', [("a",)]) == b'{"b":2}'


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b'{"a"}',
        b'{"a":}',
        b'{"a":1,}',
        b'{"a":1} x',
        b'{"a" 1}',
        b"null",
        b'{"a":1 "b":2}',
        b"{,}",
    ],
)
def test_what_is_no_single_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        without_members(raw, [])


def test_members_know_their_spans() -> None:
    text = '{ "a" : [1, 2] , "b":null}'
    assert [text[m.start : m.end] for m in document(text)] == ['"a" : [1, 2]', '"b":null']
    assert edited(text, [(8, 14, "0"), (21, 25, "1")]) == '{ "a" : 0 , "b":1}'
