"""One connection that records batch after batch: what every batch would ask or set up again is kept for the next.

Invariant: after any failure nothing is kept, and after a pause `rest` keeps nothing, so that a restarted Postgres is
met by a new connection. Policies are read again after a minute, and at once where a call names one that is not known.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar, cast
from uuid import UUID

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ledger.direct import Question, direct
from ledger.errors import DatabaseUnreachableError, SchemaBehindError
from ledger.policies import Policy, read_policies
from ledger.recording import record_calls
from ledger.records import CallRecord

_POLICIES_SECONDS = 60.0
T = TypeVar("T")
# What no record is guilty of (no server, no schema, a deadlock): tried again. Anything else is a record's own fault.
TRY_AGAIN = (
    DatabaseUnreachableError,
    SchemaBehindError,
    OperationalError,
    InterfaceError,
    InternalError,
    ProgrammingError,
    PoolTimeoutError,
    OSError,
)


class RecordingSession:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._policies: list[Policy] = []
        self._read_at = 0.0

    def record(self, calls: Sequence[CallRecord], *reports: Question) -> list[UUID]:
        """All of them and the reports, committed together, or an exception. Those that were erased as they came."""
        return self.ask(lambda connection: self._record(connection, calls, reports))

    def ask(self, question: Callable[[Connection], T]) -> T:
        """One transaction on the kept connection."""
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            with self._connection.begin():
                return question(self._connection)
        except BaseException:
            self.rest()
            raise

    def _record(
        self, connection: Connection, calls: Sequence[CallRecord], reports: Sequence[Question]
    ) -> list[UUID]:
        asked = direct(connection)
        for statement, parameters in reports:
            asked.later(statement, parameters)
        if not calls:
            asked.ask()
            return []
        return record_calls(cast("Connection", asked), calls, policies=self._known(connection, calls))

    def rest(self) -> None:
        """Gives the connection back."""
        connection, self._connection, self._policies = self._connection, None, []
        if connection is not None:
            connection.close()

    def _known(self, connection: Connection, calls: Sequence[CallRecord]) -> list[Policy]:
        named = {(call.project, call.policy) for call in calls}
        is_known = named <= {(policy.project, policy.name) for policy in self._policies}
        if not is_known or time.monotonic() - self._read_at > _POLICIES_SECONDS:
            self._policies, self._read_at = read_policies(connection), time.monotonic()
        return self._policies
