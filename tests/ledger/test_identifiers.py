from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.identifiers import choice_id, first_id_at, new_call_id, new_id, parse_id, time_of


def test_ids_are_uuid7_and_carry_their_time() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=2)
    for value in (new_id(), new_call_id()):
        assert (value.version, value.variant) == (7, RFC_4122)
        assert before < time_of(value) < datetime.now(UTC) + timedelta(milliseconds=2)


def test_ids_of_one_process_grow() -> None:
    ids = [new_id() for _ in range(1000)]
    assert ids == sorted(ids)
    assert len({new_call_id() for _ in range(1000)}) == 1000


def test_the_id_of_each_choice_follows_from_its_call() -> None:
    call_id = new_call_id()
    assert choice_id(call_id, 0) == call_id
    assert choice_id(call_id, 65535).int == call_id.int + 65535
    for index in (-1, 65536):
        with pytest.raises(ValueError, match="65535"):
            choice_id(call_id, index)


@pytest.mark.parametrize("prefix", ["", "chatcmpl-", "cmpl-", "resp_", "msg_"])
def test_any_spelling_of_an_id_is_read(prefix: str) -> None:
    value = new_id()
    assert {parse_id(f" {prefix}{text} ") for text in (str(value), value.hex, value.hex.upper())} == {value}


@pytest.mark.parametrize(
    "text", ["", "x", "chatcmpl-", f"{uuid4()}", "0" * 32, f"{new_id()}0", f"{new_id()}#1", "é\x00"]
)
def test_anything_else_is_none_of_ours(text: str) -> None:
    assert parse_id(text) is None


@given(st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - bounds are naive
def test_a_bound_is_below_every_id_of_its_time(moment: datetime) -> None:
    bound = first_id_at(moment)
    same_millisecond = UUID(int=bound.int | (7 << 76) | (2 << 62))
    assert bound < same_millisecond
    assert abs(time_of(bound) - moment) <= timedelta(milliseconds=1)
