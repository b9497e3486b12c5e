"""Hours of the week, by the wall clock: what is open, and when it opens next."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.hours import Hours

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)


def at(clock: str, days: int = 0) -> datetime:
    hour, minute = map(int, clock.split(":"))
    return MONDAY + timedelta(days=days, hours=hour, minutes=minute)


def test_no_hours_are_always_open() -> None:
    assert Hours.of("").is_open(at("12:00"))
    assert Hours.of(" , ").opening(at("12:00")) == at("12:00")


@pytest.mark.parametrize(
    ("windows", "clock", "days", "is_open"),
    [
        ("22:00-06:00", "21:59", 0, False),
        ("22:00-06:00", "22:00", 0, True),
        ("22:00-06:00", "05:59", 0, True),
        ("22:00-06:00", "06:00", 0, False),
        ("1:30-02:00", "01:45", 0, True),
        ("00:00-24:00", "23:59", 6, True),
        ("12:00-13:00, 22:00-06:00", "12:30", 0, True),
        ("mon-fri 22:00-06:00", "05:00", 0, False),  # Sunday's night
        ("mon-fri 22:00-06:00", "05:00", 5, True),  # Friday's night
        ("mon-fri 22:00-06:00", "22:00", 5, False),
        ("Sat-Mon 08:00-09:00", "08:30", 0, True),  # wraps the week
        ("sat-mon 08:00-09:00", "08:30", 1, False),
        ("sun 23:00-01:00", "00:30", 0, True),
    ],
)
def test_a_window_belongs_to_the_day_on_which_it_begins(
    windows: str, clock: str, days: int, is_open: bool
) -> None:
    assert Hours.of(windows).is_open(at(clock, days)) is is_open


def test_the_zone_decides_what_the_clock_says() -> None:
    berlin = Hours.of("22:00-06:00", "Europe/Berlin")
    assert not berlin.is_open(at("20:59"))
    assert berlin.is_open(at("21:00"))  # 22:00 in winter
    assert berlin.opening(at("12:00")) == at("21:00")


def test_a_window_that_summer_time_skips_is_not_open_that_day() -> None:
    hours = Hours.of("02:00-03:00", "Europe/Berlin")
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert hours.opening(before) == datetime(2026, 3, 30, 0, tzinfo=UTC)  # not on the 29th


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ("22-06", "is no window"),
        ("22:00", "is no window"),
        ("moon 22:00-06:00", "is no window"),
        ("mot 22:00-06:00", "'mot' is no day"),
        ("25:00-06:00", "25:00 is no time"),
        ("22:60-06:00", "22:60 is no time"),
        ("22:00-22:00", "holds nothing"),
        ("24:00-06:00", "holds nothing"),
    ],
)
def test_what_is_no_window_is_refused_with_what_is(windows: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Hours.of(windows)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "/etc/passwd"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        Hours.of("22:00-06:00", zone)


_CLOCKS = st.builds(lambda m: f"{m // 60:02}:{m % 60:02}", st.sampled_from(range(0, 24 * 60, 30)))
_WINDOWS = st.lists(
    st.tuples(st.sampled_from(["", "mon ", "tue-thu ", "sat-mon "]), _CLOCKS, _CLOCKS).filter(
        lambda w: w[1] != w[2]
    ),
    min_size=1,
    max_size=3,
).map(lambda found: ",".join(f"{days}{start}-{end}" for days, start, end in found))


@given(_WINDOWS, st.integers(0, 7 * 48 - 1))
def test_the_opening_is_the_first_half_hour_that_is_open(windows: str, half_hour: int) -> None:
    hours, moment = Hours.of(windows), MONDAY + timedelta(minutes=30 * half_hour)
    later = (moment + timedelta(minutes=30 * n) for n in range(8 * 48))
    assert hours.opening(moment) == next(each for each in later if hours.is_open(each))
