"""A real PgBouncer in transaction mode before the tests' Postgres, where the program is installed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.servers import free_port, postgres_user, running_child

POOL_SIZE = 10  # server connections a database


def pgbouncer_program() -> str:
    """On PATH, or where Debian puts it. Skips the test where it is not installed."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip("PgBouncer is not installed (apt-get install pgbouncer)")
    return found


@contextmanager
def running_pgbouncer(directory: Path, postgres_url: str) -> Iterator[int]:
    """Its port on 127.0.0.1: every database of that server, under its own name."""
    program, server, port = pgbouncer_program(), make_url(postgres_url), free_port()
    runs_as = postgres_user(directory)  # who may reach the socket; it refuses to run as root, too
    settings = directory / "pgbouncer.ini"
    settings.write_text(
        f"""
[databases]
* = host={server.query.get("host", server.host)} port={server.port or 5432} user={server.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {POOL_SIZE}
max_client_conn = 500
""",
        encoding="utf-8",
    )
    settings.chmod(0o644)
    url = pooled_url(postgres_url, port).replace("+psycopg", "")
    with running_child(
        [program, str(settings)], directory, runs_as, lambda: psycopg.connect(url, connect_timeout=1).close()
    ):
        yield port


def pooled_url(url: str, port: int) -> str:
    """The same database, asked through the PgBouncer at this port."""
    server = make_url(url)
    pooled = server.set(drivername="postgresql+psycopg", host="127.0.0.1", port=port, query={})
    return pooled.render_as_string(hide_password=False)
