"""Hours of the week in which steps may begin, by the wall clock of a time zone. Pure.

Invariant: a window belongs to the day on which it begins, and may end on the next one. No window at all: always.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES = 24 * 60
_LOOK_DAYS = (
    9  # a week, the day before it, and one more: an opening may fall into the hour that summer time skips
)
_DAYS = r"(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+"
_WINDOW = re.compile(rf"(?:{_DAYS})?(?P<start>\d\d?:\d\d)-(?P<end>\d\d?:\d\d)")


@dataclass(frozen=True, slots=True)
class Window:
    """Example: "mon-fri 22:00-06:00" -> days {0..4}, start 1320, end 360: the last ends on Saturday at six."""

    days: frozenset[int]  # 0 = Monday
    start: int  # minutes of the day
    end: int  # of the same day, or where it is not after `start`, of the next one

    def holds(self, weekday: int, minute: int) -> bool:
        if self.start < self.end:
            return weekday in self.days and self.start <= minute < self.end
        is_evening = weekday in self.days and minute >= self.start
        return is_evening or ((weekday - 1) % 7 in self.days and minute < self.end)


@dataclass(frozen=True, slots=True)
class Hours:
    """Example: Hours.of("22:00-06:00", "Europe/Berlin")."""

    windows: tuple[Window, ...]
    zone: ZoneInfo

    @classmethod
    def of(cls, windows: str, zone: str = "UTC") -> "Hours":
        """Raises ValueError, which says what is wrong."""
        return cls(tuple(_window(part) for part in _parts(windows)), zone_of(zone))

    def is_open(self, moment: datetime) -> bool:
        local = moment.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        return not self.windows or any(w.holds(local.weekday(), minute) for w in self.windows)

    def opening(self, moment: datetime) -> datetime:
        """The earliest moment at or after this one at which they are open."""
        if self.is_open(moment):
            return moment
        return min(at for at in self._beginnings(moment) if at >= moment and self.is_open(at))

    def _beginnings(self, moment: datetime) -> Iterator[datetime]:
        today = moment.astimezone(self.zone).date()
        for day in (today + timedelta(days=n) for n in range(-1, _LOOK_DAYS)):
            for window in self.windows:
                if day.weekday() in window.days:
                    yield self._at(day, window.start)

    def _at(self, day: date, minute: int) -> datetime:
        return datetime.combine(day, time(minute // 60, minute % 60), self.zone).astimezone(UTC)


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone: write a name such as UTC or Europe/Berlin") from error


def readable_hours(windows: str) -> str:
    """The same. Raises ValueError."""
    Hours.of(windows)
    return windows


def readable_zone(name: str) -> str:
    """The same. Raises ValueError."""
    return zone_of(name).key


def _parts(windows: str) -> list[str]:
    return [part for part in (each.strip().lower() for each in windows.split(",")) if part]


def _window(part: str) -> Window:
    found = _WINDOW.fullmatch(part)
    if found is None:
        raise ValueError(
            f"{part!r} is no window: write 22:00-06:00, mon-fri 22:00-06:00 or sat 00:00-24:00, several separated by commas"
        )
    start, end = _minute(found["start"]), _minute(found["end"])
    if start in (end, MINUTES):
        raise ValueError(f"{part!r} holds nothing: a whole day is 00:00-24:00")
    return Window(_days(found["first"], found["last"]), start, end)


def _minute(clock: str) -> int:
    hour, minute = map(int, clock.split(":"))
    if minute > 59 or hour * 60 + minute > MINUTES:  # noqa: PLR2004 - a clock
        raise ValueError(f"{clock} is no time of the day: 00:00 to 24:00")
    return hour * 60 + minute


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    for day in (first, last or first):
        if day not in DAYS:
            raise ValueError(f"{day!r} is no day: write {', '.join(DAYS)}")
    start, end = DAYS.index(first), DAYS.index(last or first)
    return frozenset((start + n) % 7 for n in range((end - start) % 7 + 1))
