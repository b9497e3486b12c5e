"""The story of an export: noted, counted, written aside, renamed. A file that has its name is whole.

The note comes first, so that an erasure knows of every copy that may exist. It is taken back only where no row was written.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from sqlalchemy import Engine

from ledger.durable import sync_path
from ledger.errors import LedgerError
from ledger.exports.filters import Filters
from ledger.exports.jsonl import JsonLines
from ledger.exports.parquet import Parquet
from ledger.exports.rows import count_rows, export_rows
from ledger.identifiers import new_id
from ledger.tables import exports
from ledger.text import to_storable_text

STANDARD_OUTPUT = "-"
FORMATS: dict[str, type[JsonLines | Parquet]] = {"jsonl": JsonLines, "parquet": Parquet}
Progress = Callable[[int, int], None]  # rows so far, rows in all


def format_of(path: str, named: str | None) -> str:
    """As it was named, else by the file's ending. Raises LedgerError."""
    found = named or ("jsonl" if path == STANDARD_OUTPUT else Path(path).suffix.removeprefix("."))
    if found not in FORMATS:
        raise LedgerError(f"{path!r} ends in no known format: say .parquet or .jsonl, or --format")
    if found == "parquet" and path == STANDARD_OUTPUT:
        raise LedgerError("Parquet needs a file: say one, or --format jsonl")
    return found


def export(
    engine: Engine,
    path: str,
    named_format: str | None,
    filters: Filters,
    *,
    requested_by: str,
    progress: Progress,
) -> dict[str, Any]:
    """Writes the file; what was written. Raises LedgerError, OSError; then no file has this name by us."""
    format_ = format_of(path, named_format)
    id_, number = _noted(engine, path, format_, filters, requested_by), 0
    try:
        number = _written(engine, path, format_, filters, progress)
    except _NothingWrittenError as error:
        with engine.begin() as connection:
            connection.execute(exports.delete().where(exports.c.id == id_))
        raise error.cause from error
    finished = {"num_exchanges": number, "finished_at": datetime.now(UTC)}
    with engine.begin() as connection:
        connection.execute(exports.update().where(exports.c.id == id_).values(finished))
    return {"object": "export", "id": str(id_), "path": path, "format": format_, "num_exchanges": number}


class _NothingWrittenError(Exception):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _written(engine: Engine, path: str, format_: str, filters: Filters, progress: Progress) -> int:
    """How many rows. Raises _NothingWrittenError where it failed before the first."""
    number = 0
    try:
        with (
            _written_aside(path) as file,
            engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection,
            connection.begin(),
        ):
            total = count_rows(connection, filters)
            progress(0, total)
            writer = FORMATS[format_](file)
            for number, row in enumerate(export_rows(connection, filters), 1):
                writer.write(row)
                progress(number, total)
            writer.close()
    except Exception as error:
        if number == 0:
            raise _NothingWrittenError(error) from error
        raise
    return number


def _noted(engine: Engine, path: str, format_: str, filters: Filters, requested_by: str) -> UUID:
    place = path if path == STANDARD_OUTPUT else str(Path(path).absolute())
    id_ = new_id()
    row = {
        "id": id_, "path": to_storable_text(f"{socket.gethostname()}:{place}"), "format": format_,
        "filters": filters.as_json(), "requested_by": to_storable_text(requested_by),
    }  # fmt: skip
    with engine.begin() as connection:
        connection.execute(exports.insert().values(row))
    return id_


@contextmanager
def _written_aside(path: str) -> Iterator[IO[bytes]]:
    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        return
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
        sync_path(target.parent)
    finally:
        aside.unlink(missing_ok=True)
