from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.codec import decode_call, encode_call
from ledger.records import CallRecord
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
        first_token_seconds=0.1, total_seconds=0.2, client_name="c", http_status=200, is_streamed=True,
    )  # fmt: skip
    decoded = decode_call(encode_call(call))
    assert decoded == call
    assert {field.name for field in fields(CallRecord)} == set(decoded.__slots__)
    assert isinstance(decoded.status, ExchangeStatus)
    assert isinstance(decoded.untrainable_reason, Reason)


def test_fields_of_another_version_do_not_matter() -> None:
    call = a_call()
    encoded = encode_call(call).replace(b'{"call_id"', b'{"field_of_a_newer_version":1,"call_id"', 1)
    assert decode_call(encoded) == call


@pytest.mark.parametrize("encoded", [b"", b"{}", b"[]", b'"x"', b"\xff", b'{"call_id":1}'])
def test_anything_else_is_refused(encoded: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        decode_call(encoded)
