"""When a line of a chat log says that it was: a moment that can be true, or a bad line. It decides the row's partition."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger.imports.lines import BadLineError

_EARLIEST = datetime(2015, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1)
_LAST_SECOND = 4_102_444_800  # the year 2100: what is later counts milliseconds


def moment_of(line: Mapping[str, Any], response: Mapping[str, Any], now: datetime) -> datetime | None:
    """None where nothing dates it. Raises BadLineError for what is no time, or none that a call can have had."""
    dated = (
        ("created", response.get("created")),
        *((name, line.get(name)) for name in ("created", "created_at", "timestamp")),
    )
    name, value = next(((name, value) for name, value in dated if value is not None), ("", None))
    if value is None:
        return None
    try:
        moment = _moment(value)
    except (ValueError, OverflowError, OSError) as error:
        raise BadLineError(f"{name!r} is no time: {str(value)[:40]!r}") from error
    if not _EARLIEST <= moment <= now + _AHEAD:
        raise BadLineError(f"{name!r} is {moment:%Y-%m-%d}: before 2015, or more than a day in the future")
    return moment


def _moment(value: object) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(value)  # noqa: TRY004 - of a line
    if isinstance(value, str) and not value.isdecimal():
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = float(value)
    return datetime.fromtimestamp(seconds if seconds < _LAST_SECOND else seconds / 1000, UTC)
