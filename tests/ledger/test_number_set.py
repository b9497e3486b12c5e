"""A set of numbers is what Python's set is, and what Postgres' multirange is."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from ledger.audit.number_set import NumberSet

DOINGS = st.lists(st.tuples(st.booleans(), st.integers(-20, 20), st.integers(1, 9)), max_size=40)
NUMBERS = st.frozensets(st.integers(0, 30))


@given(DOINGS)
def test_it_holds_what_a_set_holds(doings: list[tuple[bool, int, int]]) -> None:
    found, expected = NumberSet(), set[int]()
    for is_add, first, length in doings:
        if is_add:
            found.add(first, first + length)
            expected.update(range(first, first + length))
        else:
            found.remove(first, first + length)
            expected.difference_update(range(first, first + length))
        assert list(found) == sorted(expected)
        assert len(found) == len(expected)
        assert all((number in found) == (number in expected) for number in range(-22, 32))
    ranges = list(found.ranges())
    assert all(end < start for (_, end), (start, _) in pairwise(ranges))  # none touch


@given(NUMBERS, NUMBERS)
def test_union_and_difference_are_those_of_sets(one: frozenset[int], other: frozenset[int]) -> None:
    a, b = NumberSet(one), NumberSet(other)
    assert set(a | b) == one | other
    assert set(a - b) == one - other
    assert set(a) == one
    assert NumberSet.parse(str(a)) == a
    assert a.highest() == max(one, default=0)


def test_postgres_reads_it_and_writes_it(connection: Connection) -> None:
    numbers = NumberSet([1, 2, 3, 7])
    assert str(numbers) == "{[1,4),[7,8)}"
    asked = text("SELECT CAST(CAST(:numbers AS int8multirange) + '{[4,6)}'::int8multirange AS text)")
    assert NumberSet.parse(connection.scalar(asked, {"numbers": str(numbers)})) == NumberSet(
        [1, 2, 3, 4, 5, 7]
    )
    assert NumberSet.parse(connection.scalar(asked, {"numbers": "{}"})) == NumberSet([4, 5])


def test_all_up_to_a_number() -> None:
    assert list(NumberSet.up_to(3)) == [1, 2, 3]
    assert not NumberSet.up_to(0)
