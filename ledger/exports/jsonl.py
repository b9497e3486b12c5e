"""An export as JSON lines: one exchange a line, every column in it, JSON as JSON and ids as lists."""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import IO, Any
from uuid import UUID

from ledger.exports.columns import COLUMNS, Kind
from ledger.text import ESCAPE

_NUMBERS = {name: json.dumps(ESCAPE + name) for name in ("NaN", "Infinity", "-Infinity")}


class JsonLines:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, row: Mapping[str, Any]) -> None:
        members = [f'"{name}": {written(row[name], kind)}' for name, kind in COLUMNS.items()]
        self._file.write(f"{{{', '.join(members)}}}\n".encode())

    def close(self) -> None:
        self._file.flush()


def written(value: Any, kind: Kind) -> str:
    """A value as JSON. What JSON cannot hold is escaped as in the ledger."""
    if value is None:
        return "null"
    if kind is Kind.JSON:
        return str(value)
    if kind is Kind.IDS:
        return f"[{value}]"
    if kind is Kind.REALS:
        return (
            f"[{value}]" if value.isascii() and "N" not in value and "I" not in value else _odd_reals(value)
        )
    if isinstance(value, float) and not math.isfinite(value):
        return _NUMBERS["NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"]
    return json.dumps(plain(value), ensure_ascii=False)


def _odd_reals(value: str) -> str:
    return f"[{','.join(_NUMBERS.get(item, item) for item in value.split(','))}]"


def plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.isoformat() if isinstance(value, datetime) else value
