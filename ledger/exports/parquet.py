"""An export as Parquet: typed columns, lists for ids and logprobs, JSON as text. A row group is some thousand rows at most.

pyarrow is loaded here alone: who exports JSON lines needs none.
"""

from collections.abc import Mapping
from typing import IO, Any
from uuid import UUID

from msgspec import json

from ledger.errors import LedgerError
from ledger.exports.columns import COLUMNS, EXPORT_VERSION, Kind

_MOST_ROWS = 2000
_MOST_BYTES = 16 << 20  # of text, in one row group


def arrow() -> Any:
    """Pyarrow with its Parquet part. Raises LedgerError with the remedy."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise LedgerError(
            "Parquet needs pyarrow: pip install 'slipstream[files]', or export to JSON lines"
        ) from error
    return pa


def schema() -> Any:
    pa = arrow()
    types = {
        Kind.TEXT: pa.string(), Kind.UUID: pa.string(), Kind.INTEGER: pa.int64(), Kind.DOUBLE: pa.float64(),
        Kind.BOOLEAN: pa.bool_(), Kind.MOMENT: pa.timestamp("us", tz="UTC"), Kind.JSON: pa.large_string(),
        Kind.IDS: pa.large_list(pa.int32()), Kind.REALS: pa.large_list(pa.float32()),
    }  # fmt: skip
    fields = [pa.field(name, types[kind]) for name, kind in COLUMNS.items()]
    return pa.schema(fields, metadata={"slipstream_export": str(EXPORT_VERSION)})


class Parquet:
    def __init__(self, file: IO[bytes]) -> None:
        self._arrow = arrow()
        self._schema = schema()
        self._writer = self._arrow.parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._num_bytes = 0

    def write(self, row: Mapping[str, Any]) -> None:
        self._num_bytes += sum(len(value) for value in row.values() if isinstance(value, str))
        self._rows.append({name: value_of(row[name], kind) for name, kind in COLUMNS.items()})
        if len(self._rows) >= _MOST_ROWS or self._num_bytes >= _MOST_BYTES:
            self._write_group()

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._num_bytes = [], 0


def value_of(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind is Kind.IDS:
        return json.decode(f"[{value}]".encode(), type=list[int])
    if kind is Kind.REALS:
        return [float(item) for item in value.split(",")] if value else []
    return str(value) if isinstance(value, UUID) else value
