import json

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from ledger.text import from_storable, to_storable

ANY_TEXT = st.text(st.one_of(st.characters(), st.sampled_from("\x00\x1a\ud83d\ude00aN0")))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(ANY_JSON)
def test_any_json_comes_back_from_its_storable_form(value: object) -> None:
    """B081, B083, B084, B085."""
    stored = to_storable(value)
    assert from_storable(stored) == value
    encoded = json.dumps(stored, allow_nan=False, ensure_ascii=False).encode()  # raises on what is left
    assert b"\x00" not in encoded
    assert "\\u0000" not in json.dumps(stored).replace("\\\\u0000", "")


@given(ANY_TEXT, ANY_TEXT)
def test_different_texts_are_stored_differently(one: str, other: str) -> None:
    assert (to_storable(one) == to_storable(other)) == (one == other)


def test_nan_comes_back_and_its_name_stays_text() -> None:
    assert str(from_storable(to_storable([float("nan"), "NaN", "\x1aNaN"]))) == "[nan, 'NaN', '\\x1aNaN']"


def test_postgres_holds_the_storable_form(connection: Connection) -> None:
    """B081, B083, B084, B085: keys too, and the literal text \\u0000 is not mangled."""
    value = {"\x00k": ["\ud83d", "\\u0000", "\x1a", float("inf"), "ok"], "z": -0.5}
    stored = connection.scalar(
        text("SELECT CAST(:value AS jsonb)"), {"value": json.dumps(to_storable(value))}
    )
    assert from_storable(stored) == value


def test_nesting_deeper_than_python_recurses_is_stored() -> None:
    value: object = "\x00"
    for _ in range(5000):
        value = [{"k": value}]
    stored, leaf = to_storable(value), "\x1a0000"
    while isinstance(stored, list):
        stored = stored[0]["k"]
    assert stored == leaf
