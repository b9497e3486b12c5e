"""The comparison of an audit is pure: each number falls into one place, or is lost."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.audit.comparison import SILENCE, Captured, Evidence, Held, Process, compare
from ledger.audit.number_set import NumberSet

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEY = ("1-a", 7)
NUMBERS = st.frozensets(st.integers(1, 12))


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 12), st.integers(0, 12), st.booleans(), st.booleans())  # fmt: skip
def test_each_number_is_accounted_for_once_or_lost(  # noqa: PLR0917 - hypothesis gives them by position
    committed: frozenset[int], accepted: frozenset[int], finished: frozenset[int], rejected: frozenset[int],
    before: int, since: int, is_ended: bool, is_here: bool,
) -> None:  # fmt: skip
    held = Held(NumberSet(accepted), NumberSet(finished), NumberSet(rejected))
    captured = Captured(before + since, NumberSet(committed))
    process = Process(NOW, is_ended, is_here)
    (hour,) = compare(Evidence({KEY: before}, {KEY: held}, {KEY: captured}, {"1-a": process}, NOW))
    known = {*range(1, before + since + 1), *committed, *accepted, *finished, *rejected}
    assert hour.num_accepted == max(known, default=0)
    open_ = hour.num_running + hour.num_waiting + hour.num_rejected + hour.num_elsewhere
    assert len(hour.committed) + open_ + len(hour.lost) == hour.num_accepted
    assert not set(hour.lost) & (committed | accepted | finished | rejected)
    if is_here or is_ended:
        surely_lost = set(range(1, before + 1)) - committed - accepted - finished - rejected
        assert surely_lost <= set(hour.lost)


@pytest.mark.parametrize(("silent", "num_lost"), [(timedelta(0), 0), (SILENCE, 1)])
def test_another_machines_open_calls_are_lost_once_nobody_has_heard_of_it(
    silent: timedelta, num_lost: int
) -> None:
    captured = Captured(2, NumberSet([1]))
    process = Process(NOW - silent, is_ended=False, is_here=False)
    (hour,) = compare(Evidence({KEY: 2}, {}, {KEY: captured}, {"1-a": process}, NOW))
    assert (len(hour.lost), hour.num_elsewhere) == (num_lost, 1 - num_lost)
