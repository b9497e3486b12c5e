"""What a file holds, line by line, with the line's number; a bad line is told and the others go on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ledger.errors import LedgerError
from ledger.exports.columns import COLUMNS, Kind
from ledger.exports.parquet import arrow

MAX_LINE_BYTES = 256 << 20


class BadLineError(ValueError):
    """What is wrong with one line, said so that its author can mend it."""


@dataclass(frozen=True, slots=True)
class Line:
    """`value` is an object, or what is wrong with the line."""

    number: int
    value: dict[str, Any] | BadLineError


def json_lines(file: IO[bytes]) -> Iterator[Line]:
    number = 0
    while raw := file.readline(MAX_LINE_BYTES):
        number += 1
        if raw.strip():
            yield Line(number, _object(raw))


def _object(raw: bytes) -> dict[str, Any] | BadLineError:
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return BadLineError(f"not UTF-8: byte {error.start + 1} is 0x{raw[error.start]:02x}")
    except json.JSONDecodeError as error:
        return BadLineError(f"not JSON: {error.msg}, at character {error.colno}")
    except (ValueError, RecursionError) as error:
        return BadLineError(f"not JSON: {error}")
    return value if isinstance(value, dict) else BadLineError("not a JSON object")


def parquet_lines(path: Path) -> Iterator[Line]:
    """Rows by number, as the same objects that JSON lines hold. Some rows in memory at a time. Raises LedgerError."""
    pa = arrow()
    try:
        file = pa.parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise LedgerError(f"{path} is no Parquet file: {error}") from error
    number = 0
    for batch in file.iter_batches(batch_size=200):
        for row in batch.to_pylist():
            number += 1
            try:
                yield Line(number, {name: _value(name, value) for name, value in row.items()})
            except ValueError as error:
                yield Line(number, BadLineError(f"not JSON: {error}"))


def _value(name: str, value: Any) -> Any:
    if COLUMNS.get(name) is Kind.JSON and isinstance(value, str):
        return json.loads(value)
    return value
