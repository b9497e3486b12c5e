"""When a step begins by itself: each trigger alone, and together, at any time of the day."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.triggers import Situation, Triggers, due_at, waits_for

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TRIGGERS = Triggers(
    step_groups=8,
    step_max_groups=64,
    step_max_wait_seconds=3600,
    step_max_tokens=5000,
    step_min_tokens=1000,
    min_seconds_between_versions=60,
)
ENOUGH = Situation(NOON, num_ready=8, num_tokens=1000, waiting_since=NOON - timedelta(seconds=10))


def ago(**span: float) -> datetime:
    return NOON - timedelta(**span)


CASES: list[tuple[dict[str, object], dict[str, object], tuple[str, ...]]] = [
    ({}, {}, ()),
    ({}, {"num_ready": 7}, ("groups",)),
    ({}, {"num_tokens": 999}, ("tokens",)),
    ({}, {"num_ready": 0, "num_tokens": 0, "waiting_since": None}, ("groups", "tokens")),
    ({}, {"num_ready": 1, "num_tokens": 5, "waiting_since": ago(hours=1)}, ()),  # by age, below the floor
    ({}, {"num_ready": 1, "num_tokens": 5, "waiting_since": ago(seconds=3599)}, ("groups", "tokens")),
    ({}, {"num_ready": 64, "num_tokens": 5}, ()),  # full: nothing more would come into it
    ({"step_min_tokens": 9000}, {"num_tokens": 5000}, ()),  # a floor above the ceiling is the ceiling
    ({"train_hours": "22:00-06:00"}, {}, ("hours",)),
    ({"train_hours": "11:00-13:00"}, {}, ()),
    ({"train_hours": "12:00-14:00", "train_time_zone": "Europe/Berlin"}, {}, ()),  # 13:00 there
    ({"train_hours": "14:00-15:00", "train_time_zone": "Europe/Berlin"}, {}, ("hours",)),
    ({}, {"version": 3, "published_at": ago(seconds=59)}, ("interval",)),
    ({}, {"version": 3, "published_at": ago(seconds=60)}, ()),
    ({}, {"waiting_since": ago(hours=9), "published_at": ago(seconds=1)}, ("interval",)),  # age does not pass it
    ({}, {"version": 3, "published_at": ago(days=-400)}, ()),  # Postgres' clock was wrong, and was set right
    ({}, {"paused_at": ago(days=1)}, ("resumption",)),
    (
        {"train_hours": "22:00-06:00"},
        {"num_ready": 2, "num_tokens": 7, "published_at": NOON, "paused_at": NOON},
        ("groups", "tokens", "hours", "interval", "resumption"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "facts", "expected"), CASES)
def test_what_a_step_waits_for(
    settings: dict[str, object], facts: dict[str, object], expected: tuple[str, ...]
) -> None:
    triggers, situation = replace(TRIGGERS, **settings), replace(ENOUGH, **facts)  # type: ignore[arg-type]
    assert waits_for(triggers, situation) == expected


def test_it_is_told_when_one_begins_if_nothing_more_comes() -> None:
    assert due_at(TRIGGERS, ENOUGH) == ENOUGH.waiting_since  # since then
    few = replace(ENOUGH, num_ready=2, waiting_since=ago(minutes=10))
    assert due_at(TRIGGERS, few) == NOON + timedelta(minutes=50)
    assert due_at(TRIGGERS, replace(ENOUGH, published_at=ago(seconds=10))) == NOON + timedelta(seconds=50)
    at_night = replace(TRIGGERS, train_hours="22:00-06:00")
    assert due_at(at_night, few) == NOON + timedelta(hours=10)
    assert due_at(at_night, replace(ENOUGH, waiting_since=ago(days=2))) == NOON + timedelta(hours=10)


def test_nothing_ready_or_a_pause_is_due_at_no_time() -> None:
    assert due_at(TRIGGERS, Situation(NOON)) is None
    assert due_at(TRIGGERS, replace(ENOUGH, paused_at=NOON)) is None


def test_what_an_older_worker_told_has_no_floor_no_hours_and_no_interval() -> None:
    told = {"step_groups": 8, "step_max_groups": 32, "step_max_wait_seconds": 900.0, "seed": 0}
    assert waits_for(Triggers.of(told), replace(ENOUGH, num_tokens=0, published_at=NOON)) == ()


_SITUATIONS = st.builds(
    Situation,
    now=st.integers(0, 7 * 24 * 60).map(lambda minutes: NOON + timedelta(minutes=minutes)),
    num_ready=st.integers(1, 20),
    num_tokens=st.integers(0, 2000),
    waiting_since=st.integers(0, 300).map(lambda minutes: ago(minutes=minutes)),
    published_at=st.none() | st.integers(0, 100).map(lambda seconds: ago(seconds=seconds)),
)
_HOURS = st.sampled_from(["", "22:00-06:00", "mon-fri 09:00-17:00", "sat 00:00-24:00, sun 03:15-04:00"])


@given(_SITUATIONS, _HOURS)
def test_a_step_begins_at_the_moment_that_was_told_and_at_no_earlier_one(
    situation: Situation, hours: str
) -> None:
    triggers = replace(TRIGGERS, train_hours=hours)
    at = due_at(triggers, situation)
    assert at is not None
    if at <= situation.now:
        assert waits_for(triggers, situation) == ()
    else:
        assert waits_for(triggers, situation) != ()
        assert waits_for(triggers, replace(situation, now=at)) == ()
        assert waits_for(triggers, replace(situation, now=at - timedelta(seconds=1))) != ()
