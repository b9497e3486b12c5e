"""The embedded PostgreSQL and Valkey under the supervisor, in a path longer than a socket's may be."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from slipstream.local import postgres, valkey
from slipstream.local.home import Home
from slipstream.local.ports import free_ports
from slipstream.local.supervisor import Supervisor


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.at(tmp_path / ("long-" * 30) / "home")
    home.create()
    return home


def server(home: Home, port: int) -> Supervisor:
    environment = dict(os.environ)
    specs = [postgres.postgres_spec(home, port, environment, 60)]
    if not (home / "postgres").exists():
        specs.insert(0, postgres.initdb_spec(home, environment))
    return Supervisor(home, specs, {}, lambda _: None, lambda _: None)


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def test_postgres_starts_keeps_its_data_and_recovers_from_kill_9(home: Home, port: int) -> None:
    first = server(home, port)
    first.start()
    with psycopg.connect(postgres.database_url(home, port)) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (7)")
    pid = int((home / "postgres" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    first.stop()
    assert (home / "postgres" / "postmaster.pid").exists()
    second = server(home, port)
    second.start()
    with psycopg.connect(postgres.database_url(home, port)) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
    second.stop()


def test_postgres_wants_the_password(home: Home, port: int) -> None:
    supervisor = server(home, port)
    supervisor.start()
    wrong = f"postgresql://postgres:nonsense@127.0.0.1:{port}/slipstream"
    assert "password authentication failed" in postgres.ask_database(wrong)
    supervisor.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_postgres_runs_as_root_where_user_namespaces_are_forbidden(
    home: Home, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "namespaces_work", lambda: False)
    supervisor = server(home, port)
    supervisor.start()
    assert (home / "postgres").stat().st_uid != 0
    supervisor.stop()


def test_valkey_wants_the_password_and_keeps_it_off_the_command_line(home: Home, port: int) -> None:
    spec = valkey.valkey_spec(home, port, dict(os.environ), 30)
    supervisor = Supervisor(home, [spec], {}, lambda _: None, lambda _: None)
    supervisor.start()
    assert "authenticated" in valkey.ask_valkey(f"redis://127.0.0.1:{port}/0")
    assert home.password("valkey") not in " ".join(spec.command)
    supervisor.stop()


def test_a_database_url_that_is_none_is_explained_without_its_password() -> None:
    answer = postgres.ask_database("mysql://root:hunter2@localhost/x")
    assert "PostgreSQL" in answer
    assert "hunter2" not in answer


def test_kill_9_of_the_supervisor_leaves_no_process(home: Home, port: int) -> None:
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from tests.slipstream.test_servers import server; from slipstream.local.home import Home\n"
        "s = server(Home.at(Path(sys.argv[1])), int(sys.argv[2])); s.start()\n"
        "print(*[c.process.pid for c in s.children if c.process], flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(home.root), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        leash = int(process.stdout.readline())
        process.kill()
    end = os.pidfd_open(leash) if Path(f"/proc/{leash}").exists() else None
    if end is not None:
        import select

        assert select.select([end], [], [], 20)[0], "the leash did not end"
        os.close(end)
    assert not (home / "postgres" / "postmaster.pid").exists()
