"""Rewards from a query over the user's own tables: rows become items of POST /v1/rewards. Reads, and nothing else.

Invariant: the same row gives the same item with the same id, whenever and in whatever order it is read, so that
posting again changes nothing. Rows are read a few at a time, in a transaction that may not write.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

import psycopg

from ledger.database import connect_options, database_address
from ledger.errors import LedgerError
from slipstream.errors import UsageError

REQUIRED = ("target", "reward")
COLUMNS = {
    "target": "a trajectory id, a reply's id, or your own trajectory id",
    "reward": "a number or a boolean; NULL: the row is passed over",
    "metric": "what is judged; without it `reward`",
    "comment": "a remark",
    "source": "who judges; without it `sql`",
    "observed_at": "when the judgement was made",
    "id": "the row's own id; without it a hash of the row",
    "choice": "which choice of a call with several",
}
MAX_BYTES = 2 << 20  # of an item: what is larger would be refused with all that is posted beside it
_ROWS_AT_ONCE = 500
_SQL_TYPES = (
    (str, "text"), (datetime, "timestamp"), (date, "date"), (time, "time"), (timedelta, "interval"), (UUID, "uuid"),
    (dict, "json"), (list, "an array"), (bytes, "bytea"),
)  # fmt: skip
_SELECT = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(?:select|with|values|table)\b", re.IGNORECASE | re.DOTALL
)
_TOLD = 256  # characters of a target that cannot be posted


@dataclass(frozen=True, slots=True)
class Item:
    """Row 3 as it is posted: Item(3, {"target": "run-7", "reward": 1.0, "source": "sql", "id": "sql-9f2c…"})."""

    number: int  # from 1
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be posted, and why."""

    number: int
    target: str
    message: str


@contextmanager
def running_query(database_url: str, query: str) -> Iterator[Iterator[Sequence[Any] | list[str]]]:
    """First the names of the columns, then the rows. Raises UsageError with what Postgres said."""
    if not _SELECT.match(query):
        raise UsageError("The query is no SELECT: it should be one SELECT that returns target and reward.")
    try:
        with psycopg.connect(_address(database_url), **connect_options()) as connection:
            connection.read_only = True
            with connection.cursor(name="rewards") as cursor:
                cursor.itersize = _ROWS_AT_ONCE
                cursor.execute(query.strip().removesuffix(";").encode())
                try:
                    yield _rows(cursor)
                except psycopg.Error as error:
                    raise UsageError(
                        f"The query broke off: {_said(error)}. What was posted before stays; mend it, and run the "
                        "command again for the rest."
                    ) from error
    except psycopg.Error as error:
        if isinstance(error, psycopg.errors.SyntaxError) and "multiple commands" in str(error):
            raise UsageError("The file holds several statements: it should be one SELECT.") from error
        raise UsageError(f"The query could not be run: {_said(error)}") from error


def _said(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _address(url: str) -> str:
    try:
        return database_address(url).set(drivername="postgresql").render_as_string(hide_password=False)
    except (LedgerError, ValueError) as error:
        raise UsageError(
            "The database's address (--database, SLIPSTREAM_REWARDS_DATABASE_URL or DATABASE_URL) cannot be used: say "
            "postgresql://user@host/name"
        ) from error


def _rows(cursor: "psycopg.ServerCursor[Any]") -> Iterator[Any]:
    yield [column.name for column in cursor.description or []]
    yield from cursor


def items(rows: Iterator[Any], source: str) -> Iterator[Item | BadRow | None]:
    """An item for each row; None for one without a reward. Raises UsageError for columns that are not known."""
    names = next(rows)
    _check_columns(names)
    for number, row in enumerate(rows, 1):
        yield _item(number, dict(zip(names, row, strict=True)), source)


def _check_columns(names: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in names]
    unknown = [name for name in names if name not in COLUMNS]
    if missing or unknown or len(set(names)) < len(names):
        known = "; ".join(f"{name} ({meaning})" for name, meaning in COLUMNS.items())
        wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown) or 'a column twice'}"
        raise UsageError(
            f"The query {wrong}. Its columns may be: {known}. Only target and reward are needed."
        )


def _item(number: int, row: dict[str, Any], source: str) -> Item | BadRow | None:
    if row["reward"] is None:
        return None
    target = "" if row["target"] is None else str(row["target"])
    try:
        body = _body(target, row, source)
    except (ValueError, OverflowError) as error:
        return BadRow(number, target[:_TOLD], str(error))
    given = row.get("id")
    return Item(number, {**body, "id": _hash(body) if given is None else str(given)})


def _body(target: str, row: dict[str, Any], source: str) -> dict[str, Any]:
    if not target:
        raise ValueError("target is NULL")
    given = {name: value for name, value in row.items() if value is not None}
    body = {"target": target, "reward": _reward(row["reward"]), "source": str(given.get("source") or source)}
    body |= {name: str(given[name]) for name in ("metric", "comment") if name in given}
    if "choice" in given:
        body["choice"] = _choice(given["choice"])
    if "observed_at" in given:
        body["observed_at"] = _moment(given["observed_at"])
    if len(json.dumps(body)) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES:,} bytes: no comment may be so long")
    return body


def _reward(value: Any) -> float | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float | Decimal):
        raise ValueError(f"reward is {_sql_type(value)}: cast it to a number or a boolean")  # noqa: TRY004 - of a row
    if not isfinite(value):
        raise ValueError("reward is not finite")
    return float(value)


def _sql_type(value: Any) -> str:
    """As Postgres calls it, where it is one of the usual types."""
    return next((name for type_, name in _SQL_TYPES if isinstance(value, type_)), type(value).__name__)


def _choice(value: Any) -> int:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool) or value != int(value):
        raise ValueError(f"choice is {value!r}: cast it to an integer")
    return int(value)


def _moment(value: Any) -> str:
    """In UTC: psycopg gives a timestamptz in the zone of the session, which another machine or the summer changes."""
    if isinstance(value, datetime) and value.tzinfo:
        value = value.astimezone(UTC)
    return value.isoformat() if isinstance(value, date) else str(value)


def _hash(body: dict[str, Any]) -> str:
    written = json.dumps(body, sort_keys=True).encode()
    return f"sql-{hashlib.sha256(written).hexdigest()[:40]}"
