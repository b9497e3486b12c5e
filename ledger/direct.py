"""A connection whose text statements go straight to libpq: a tenth of what SQLAlchemy's and psycopg's ways cost.

For the writer, which sends a dozen statements a batch, several of them together where none needs the other's answer
(libpq's pipeline). A parameter travels as text and the statement casts it. Whatever is not text goes to SQLAlchemy, in
the same transaction. Errors are SQLAlchemy's.
"""

import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from select import POLLIN, POLLOUT, poll
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

Question = tuple[TextClause, Mapping[str, Any]]
_Encoded = tuple[str, bytes, list[bytes | None]]  # as it was written, as it is sent, its parameters


class Rows(list[Any]):
    """What a statement answered, as named tuples; asked as a SQLAlchemy result is."""

    def all(self) -> list[Any]:
        return self

    def first(self) -> Any:
        return self[0] if self else None

    def scalars(self) -> "Rows":
        return Rows(row[0] for row in self)

    def scalar(self) -> Any:
        return self[0][0] if self else None


class DirectConnection:
    """Only what recording asks of a Connection; everything else is the connection's own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
        self._pgconn = self._driver.pgconn
        self._poll = poll()
        self._waiting: list[_Encoded] = []

    def later(self, statement: TextClause, parameters: Mapping[str, Any] | None = None) -> None:
        """A statement whose answer nobody needs: it goes before the next one; without a next one it is not sent."""
        self._waiting += _encoded([(statement, parameters or {})])

    def ask(self, *questions: Question) -> list[Rows]:
        """The answer of each; none may need another's."""
        self._begin()
        num_waiting, encoded = len(self._waiting), self._waiting + _encoded(questions)
        self._waiting = []
        return [self._rows(answer) for answer in self._answers(encoded)[num_waiting:]]

    def execute(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        if isinstance(statement, TextClause):
            return self.ask((statement, parameters or {}))[0]
        self.ask()
        return self._connection.execute(statement, parameters)

    def copy(self, statement: str, blocks: Iterable[bytes]) -> None:
        self.ask()
        with _sqlalchemy_errors(statement):
            _checked(self._pgconn.exec_(statement.encode()))
            for block in blocks:
                self._pgconn.put_copy_data(block)
                while self._pgconn.flush():
                    self._wait(POLLIN | POLLOUT)
            self._pgconn.put_copy_end()
            answer = self._next_answer()
            self._pgconn.get_result()  # None: the end
            _checked(answer)

    def _begin(self) -> None:
        if not self._connection.in_transaction():  # it commits and rolls back only what it began
            self._connection.begin()
        if self._pgconn.transaction_status == pq.TransactionStatus.IDLE:
            self._waiting.insert(0, ("BEGIN", b"BEGIN", []))

    def _answers(self, questions: Sequence[_Encoded]) -> "list[pq.abc.PGresult]":
        if len(questions) > 1:
            answers = self._answers_together(questions)
        else:
            answers = [self._pgconn.exec_params(sql, values) for _, sql, values in questions]
        for (statement, _, _), answer in zip(questions, answers, strict=True):
            with _sqlalchemy_errors(statement):
                _checked(answer)
        return answers

    def _answers_together(self, questions: Sequence[_Encoded]) -> "list[pq.abc.PGresult]":
        pgconn = self._pgconn
        with _sqlalchemy_errors(questions[0][0]):
            pgconn.enter_pipeline_mode()
            try:
                for _, sql, values in questions:
                    pgconn.send_query_params(sql, values)
                pgconn.pipeline_sync()
                answers = []
                for _ in questions:
                    answers.append(self._next_answer())
                    pgconn.get_result()  # None: the end of this one's
                self._next_answer()  # the sync's
            finally:
                pgconn.exit_pipeline_mode()
        return answers

    def _next_answer(self) -> "pq.abc.PGresult":
        """Other threads go on meanwhile, which `get_result` alone would not let them."""
        while self._pgconn.is_busy():
            self._wait(POLLIN | POLLOUT if self._pgconn.flush() else POLLIN)
        answer = self._pgconn.get_result()
        if answer is None:
            raise psycopg.OperationalError("the connection was lost")
        return answer

    def _wait(self, events: int) -> None:
        self._poll.register(self._pgconn.socket, events)
        self._poll.poll()
        self._pgconn.consume_input()

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


def direct(connection: Connection | DirectConnection) -> DirectConnection:
    """The same, where it is one already."""
    return connection if isinstance(connection, DirectConnection) else DirectConnection(connection)


def _encoded(questions: Iterable[Question]) -> list[_Encoded]:
    """A list that several of them have is written once."""
    written: dict[int, bytes | None] = {}
    encoded = []
    for statement, parameters in questions:
        sql, names = _numbered(statement.text)
        values = [parameters[name] for name in names]
        for value in values:
            if id(value) not in written:
                written[id(value)] = parameter(value)
        encoded.append((statement.text, sql, [written[id(value)] for value in values]))
    return encoded


@contextmanager
def _sqlalchemy_errors(statement: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise DBAPIError.instance(statement, None, error, psycopg.Error, dialect=_DIALECT) from error


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
