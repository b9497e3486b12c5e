"""Engines for Postgres, made alike everywhere: no server-side prepared statements (PgBouncer), bounded waits.

An engine belongs to the process that made it: make it after a fork, never before. `pool_size` is what it says, the
most connections this engine ever holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from ledger.errors import DatabaseUnreachableError
from ledger.schema import check_schema

CONNECT_TIMEOUT_SECONDS = 5
POOL_TIMEOUT_SECONDS = 10
_NO_CONNECTION = (
    "08",
    "28",
    "3D",
    "53",
    "57P",
)  # SQLSTATE: connection, password, database, resources, shutdown
_SCHEMES = ("postgres", "postgresql", "postgresql+psycopg")


def database_address(url: str) -> URL:
    """`postgres://`, `postgresql://` or `postgresql+psycopg://` as SQLAlchemy's URL for psycopg."""
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise DatabaseUnreachableError(
            "DATABASE_URL is not a URL: say postgresql://user@host/name"
        ) from error
    if address.drivername not in _SCHEMES:
        raise DatabaseUnreachableError(
            f"DATABASE_URL begins with {address.drivername}://: only PostgreSQL is supported, postgresql://…"
        )
    return address.set(drivername="postgresql+psycopg")


def connect_options() -> dict[str, Any]:
    """What psycopg is told for every connection."""
    return {
        "prepare_threshold": None,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "application_name": "slipstream",
        # A server whose machine is gone never answers: noticed within a minute, not after two hours.
        "keepalives_idle": 20,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 50_000,
    }


def _options(pool_size: int) -> dict[str, Any]:
    if pool_size < 1:
        raise ValueError("pool_size must be at least 1")
    return {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": POOL_TIMEOUT_SECONDS,
        "pool_pre_ping": True,  # a restarted Postgres costs a reconnect, not an error
        "connect_args": connect_options(),
    }


def sync_engine(url: str, *, pool_size: int = 5) -> Engine:
    return create_engine(database_address(url), **_options(pool_size))


def async_engine(url: str, *, pool_size: int = 5) -> AsyncEngine:
    return create_async_engine(database_address(url), **_options(pool_size))


async def is_pooled(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether PgBouncer or its like stands between: the server process that answers is not the one we logged in to.

    In transaction mode each transaction may meet another server session, so LISTEN and SET mean nothing there.
    """
    cursor = await connection.execute("SELECT pg_backend_pid()")
    row = await cursor.fetchone()
    return row is None or row[0] != connection.info.backend_pid


@contextmanager
def translated_errors() -> Iterator[None]:
    """Around `engine.connect()`: what psycopg says about a missing server becomes one sentence with the remedy."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        if not _is_unreachable(error):
            raise
        raise DatabaseUnreachableError(
            f"{DatabaseUnreachableError.__doc__} Postgres said: {_said(error.orig)}"
        ) from error


def _said(error: object) -> str:
    """The first line, which names the server and the reason; after a headline, what follows it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no answer"]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def _is_unreachable(error: OperationalError | InterfaceError) -> bool:
    """There is no SQLSTATE where psycopg never got as far as the server."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate is None or str(sqlstate).startswith(_NO_CONNECTION)


def check_database(connection: Connection) -> None:
    """Raise DatabaseUnreachableError or SchemaBehindError if this code cannot work with the database."""
    with translated_errors():
        connection.execute(text("SELECT 1"))
        check_schema(connection)
