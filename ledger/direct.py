"""A connection whose text statements go straight to libpq: a tenth of what SQLAlchemy's and psycopg's ways cost.

For the writer, which sends a dozen statements a batch. A parameter travels as text and the statement casts it.
Whatever is not text goes to SQLAlchemy, in the same transaction. Errors are SQLAlchemy's.
"""

import re
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import psycopg
from psycopg import errors, pq
from psycopg.adapt import Transformer
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError

from ledger.sql_text import parameter

_DIALECT = postgresql.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
_NAME = re.compile(r"%\((\w+)\)s")


class Rows(list[Any]):
    """What a statement answered, as named tuples; asked as a SQLAlchemy result is."""

    def all(self) -> list[Any]:
        return self

    def first(self) -> Any:
        return self[0] if self else None

    def scalars(self) -> "Rows":
        return Rows(row[0] for row in self)


class DirectConnection:
    """Only what recording asks of a Connection; everything else is the connection's own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
        self._pgconn = self._driver.pgconn

    def execute(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        if not isinstance(statement, TextClause):
            return self._connection.execute(statement, parameters)
        if not self._connection.in_transaction():  # it commits and rolls back only what it began
            self._connection.begin()
        sql, names = _numbered(statement.text)
        values = [parameter(parameters[name]) for name in names] if parameters else None
        try:
            return self._rows(self._answer(sql, values))
        except psycopg.Error as error:
            raise DBAPIError.instance(statement.text, None, error, psycopg.Error, dialect=_DIALECT) from error

    def _answer(self, sql: bytes, values: list[bytes | None] | None) -> "pq.abc.PGresult":
        if self._pgconn.transaction_status == pq.TransactionStatus.IDLE:
            _checked(self._pgconn.exec_(b"BEGIN"))
        return _checked(self._pgconn.exec_params(sql, values))

    def _rows(self, answer: "pq.abc.PGresult") -> Rows:
        if not answer.ntuples:
            return Rows()
        transformer = Transformer(self._driver)
        transformer.set_pgresult(answer)
        names = tuple(answer.fname(n) or b"" for n in range(answer.nfields))
        return Rows(transformer.load_rows(0, answer.ntuples, _maker(names)))

    def scalars(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        return self.execute(statement, parameters).scalars()

    def scalar(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        row = self.execute(statement, parameters).first()
        return row and row[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def direct(connection: Connection) -> Connection:
    return cast("Connection", DirectConnection(connection))


def _checked(answer: "pq.abc.PGresult") -> "pq.abc.PGresult":
    if answer.status == pq.ExecStatus.FATAL_ERROR:
        raise errors.error_from_result(answer)
    return answer


@lru_cache(maxsize=200)
def _maker(names: tuple[bytes, ...]) -> Callable[[Any], Any]:
    kind: Any = namedtuple("Row", [name.decode() for name in names], rename=True)  # type: ignore[misc]  # noqa: PYI024
    make: Callable[[Any], Any] = kind._make
    return make


@lru_cache(maxsize=200)
def _numbered(statement: str) -> tuple[bytes, list[str]]:
    """`:name` as $1, $2, …, and the names in that order."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found.group(1) not in names:
            names.append(found.group(1))
        return f"${names.index(found.group(1)) + 1}"

    sql = _NAME.sub(number, str(text(statement).compile(dialect=_DIALECT)))
    return sql.replace("%%", "%").encode(), names
