from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.codec import UNDECODABLE, call_of, decode_call, decode_held, encode_call
from ledger.records import CallRecord
from ledger.spool.frames import MARKER
from ledger.token_ids import TokenIds
from ledger.vocabulary import ExchangeStatus, Reason
from tests.ledger.calls import a_call, a_choice, an_attribution, n_call
from tests.ledger.test_text import ANY_JSON, ANY_TEXT

LOGPROBS = st.lists(st.floats(allow_nan=False), max_size=4)


@given(ANY_JSON, ANY_TEXT, LOGPROBS)
def test_a_call_comes_back_exactly(value: Any, odd: str, logprobs: list[float]) -> None:
    call = a_call(
        attribution=an_attribution(external_id=odd, group_key=odd, metadata={odd: value}),
        messages=[value], request={odd: value}, error={"e": value}, request_id=odd,
        choices=[a_choice(text=odd, response={"r": value}, sampling_logprobs=logprobs)],
    )  # fmt: skip
    assert decode_call(encode_call(call)) == call


def test_nan_comes_back_as_nan() -> None:
    call = a_call(request={"x": float("nan")}, temperature=float("nan"))
    assert repr(decode_call(encode_call(call))) == repr(call)


def test_every_field_comes_back() -> None:
    call = n_call(
        2, status=ExchangeStatus.CANCELLED, retry_of=a_call().call_id, untrainable_reason=Reason.EXTERNAL_MODEL,
        started_at=datetime(2026, 1, 2, 3, 4, 5, 678, UTC), seed=1, top_k=3, top_p=0.5, max_tokens=9,
        first_token_seconds=0.1, total_seconds=0.2, client_name="c", http_status=200, key_id=a_call().call_id, is_streamed=True,
        is_explored=True,
    )  # fmt: skip
    decoded = decode_call(encode_call(call))
    assert decoded == call
    assert decoded.key_id == call.key_id
    assert {field.name for field in fields(CallRecord)} == set(decoded.__slots__)
    assert isinstance(decoded.status, ExchangeStatus)
    assert isinstance(decoded.untrainable_reason, Reason)


@given(st.binary(), st.lists(st.integers(-12, 90)), st.booleans())
def test_bodies_and_ids_as_text_come_back(raw: bytes, numbers: list[int], is_odd: bool) -> None:
    call = a_call(
        raw_request=raw, prompt_key="messages", prompt_ids=TokenIds(b"1,5"), client_name="\ud800" if is_odd else None,
        request={"numbers": numbers}, choices=[a_choice(prompt_ids=TokenIds(b"7"))],
    )  # fmt: skip
    assert decode_call(encode_call(call)) == call


@pytest.mark.parametrize("where", ["raw_request", "request"])
def test_no_payload_looks_like_the_beginning_of_a_frame(where: str) -> None:
    """In MessagePack these numbers are the bytes of the marker."""
    value = {"raw_request": b"x" + MARKER, "request": {"x": [-11, 83, 76, 80]}}[where]
    call = a_call(**{where: value})
    assert MARKER not in encode_call(call)
    assert decode_call(encode_call(call)) == call


def held_by(encoded: bytes, *, is_json: bool) -> dict[str, Any]:
    assert encoded.startswith(b"{") == is_json
    return decode_held(encoded)


@pytest.mark.parametrize("is_json", [False, True])
def test_fields_of_another_version_do_not_matter(is_json: bool) -> None:
    call = a_call(client_name="\ud800" if is_json else "c", seed=None)
    held = held_by(encode_call(call), is_json=is_json)
    del held["seed"], held["is_explored"]
    held["attribution"]["field_of_a_newer_version"] = held["choices"][0]["another"] = held["one_more"] = 1
    assert call_of(held) == call


@pytest.mark.parametrize(
    "encoded", [b"", b"{}", b"[]", b'"x"', b"\xff", b'{"call_id":1}', b"\x01", b"\x01\0\0\0\x01\x80"]
)
def test_anything_else_is_refused(encoded: bytes) -> None:
    with pytest.raises(UNDECODABLE):
        decode_call(encoded)
