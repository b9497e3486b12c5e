"""One snapshot of the ledger: what several statements read is of one moment, and nothing can be written.

Whoever writes by it does so in a transaction of its own, guarded as ever (docs/decisions/0004).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text

_ONE_MOMENT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
_LIMIT = text("SELECT set_config('statement_timeout', :seconds || 's', true)")


@contextmanager
def snapshot(engine: Engine, statement_seconds: int | None = None) -> Iterator[Connection]:
    """Rolled back at the end. `statement_seconds`: the most that one statement may take."""
    with engine.connect() as connection:
        connection.execute(_ONE_MOMENT)
        if statement_seconds is not None:
            connection.execute(_LIMIT, {"seconds": str(statement_seconds)})
        try:
            yield connection
        finally:
            connection.rollback()
