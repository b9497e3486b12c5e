"""Commands that only look: versions, psql."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection, Engine, text

from slipstream.errors import UsageError
from slipstream.running import find_running

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

VERSIONS = """
    SELECT project, model, is_live, state, parent_version, published_at, adapter_path
    FROM v1.versions ORDER BY project, policy, version DESC
"""


@contextmanager
def ledger_engine() -> Iterator[Engine]:
    """An engine of one connection for the ledger, whose schema was checked."""
    from ledger.database import check_database, sync_engine, translated_errors

    engine = sync_engine(find_running().require("DATABASE_URL"), pool_size=1)
    try:
        with translated_errors():
            with engine.connect() as connection:
                check_database(connection)
            yield engine
    finally:
        engine.dispose()


@contextmanager
def ledger_connection() -> Iterator[Connection]:
    """A connection to the ledger whose schema was checked."""
    with ledger_engine() as engine, engine.connect() as connection:
        yield connection


def versions(as_json: JsonOption = False) -> None:
    """The versions of each policy, the newest first."""
    with ledger_connection() as connection:
        rows = [dict(row) for row in connection.execute(text(VERSIONS)).mappings()]
    if as_json:
        typer.echo(json.dumps(rows, default=str))
        return
    columns = list(rows[0]) if rows else ["model"]
    show_table(columns, [["" if row[c] is None else str(row[c]) for c in columns] for row in rows])


def psql(context: typer.Context) -> None:
    """Open the ledger with psql; its arguments follow, such as -f query.sql or -c 'SELECT …'."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    url = find_running().require("DATABASE_URL").replace("postgresql+psycopg://", "postgresql://")
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except ProgrammingError as error:
        raise UsageError("DATABASE_URL cannot be read: say postgresql://user@host/name.") from error
    names = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "password": "PGPASSWORD",
        "dbname": "PGDATABASE",
    }
    rest = make_conninfo(**{name: value for name, value in parts.items() if name not in names})
    environment = {**os.environ, **{names[name]: value for name, value in parts.items() if name in names}}
    program = psql_program()
    os.execve(program, [program, *([rest] if rest else []), *context.args], environment)  # noqa: S606 - becomes psql


def psql_program() -> str:
    """The embedded wheel's psql, else the one in PATH."""
    from slipstream.local.postgres import binary

    try:
        return str(binary("psql"))
    except UsageError:
        found = shutil.which("psql")
        if found is None:
            raise UsageError(
                "psql is not here: pip install 'slipstream[local]', or install PostgreSQL's client."
            ) from None
        return found


def show_table(columns: list[str], rows: list[list[str]]) -> None:
    """Columns as wide as they need where the output is no terminal: a program may cut them."""
    table = Table(*columns, box=None, pad_edge=False, show_header=any(columns))
    for row in rows:
        table.add_row(*(cell.replace("[", "\\[") for cell in row))
    console = Console()
    (console if console.is_terminal else Console(width=250)).print(table)
