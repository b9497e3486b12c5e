from hypothesis import given
from hypothesis import strategies as st

from ledger.bulk import integers
from ledger.token_ids import TokenIds, tokens_digest

IDS = st.lists(st.integers(0, 1 << 20) | st.integers(0, 9), max_size=40)


@given(IDS, st.integers(-5, 45) | st.none(), st.integers(-5, 45) | st.none(), st.booleans())
def test_ids_as_text_are_the_list_of_them(
    ids: list[int], start: int | None, stop: int | None, is_said: bool
) -> None:
    text = ",".join(map(str, ids)).encode()
    held = TokenIds(text, len(ids) if is_said else None)
    assert held == ids == list(held)
    assert (len(held), bool(held)) == (len(ids), bool(ids))
    assert held[start:stop] == ids[start:stop]
    assert [held[n] for n in range(len(ids))] == ids
    assert TokenIds.of(ids) == held
    assert hash(TokenIds.of(ids)) == hash(held)
    assert integers(held) == integers(ids) == b"{%b}" % text


@given(IDS, IDS)
def test_a_digest_is_of_the_ids_and_not_of_how_they_are_held(one: list[int], other: list[int]) -> None:
    digest = tokens_digest(one, other)
    assert digest == tokens_digest(one + other) == tokens_digest(TokenIds.of(one), TokenIds.of(other))
    assert (digest == tokens_digest(one)) == (not other)


def test_white_space_does_not_matter() -> None:
    assert TokenIds(b"1, 5,\n9") == [1, 5, 9]
