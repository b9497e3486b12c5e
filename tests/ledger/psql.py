"""A query file as a user runs it: by psql, its rows as text."""

import csv
import io
import subprocess
from pathlib import Path

from tests.servers import POSTGRES_BIN_PATH

QUERIES = Path(__file__).parents[2] / "examples/sql"


def psql(database_url: str, name: str, **values: object) -> list[list[str]]:
    """The rows of a query file, without its header; `values` are psql's variables."""
    return list(csv.reader(io.StringIO(_run(database_url, name, ["--csv", "--tuples-only"], values))))


def shown(database_url: str, name: str, **values: object) -> list[str]:
    """The lines that a user sees."""
    return _run(database_url, name, [], values).splitlines()


def _run(database_url: str, name: str, form: list[str], values: dict[str, object]) -> str:
    command = [POSTGRES_BIN_PATH / "psql", "--no-psqlrc", *form, "-v", "ON_ERROR_STOP=1"]
    options = [part for key, value in values.items() for part in ("-v", f"{key}={value}")]
    url = database_url.replace("+psycopg", "")
    whole = [*command, *options, "-d", url, "-f", QUERIES / name]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
