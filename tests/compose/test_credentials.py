"""The database's password: made once, never a known one, never lost."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import Connection

from ledger.keys import KEY_START, ensure_key, new_key
from ledger.vocabulary import Scope

SCRIPT = Path(__file__).parents[2] / "docker" / "credentials.py"


def make(folder: Path, chosen: str = "", key: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"SLIPSTREAM_POSTGRES_PASSWORD": chosen, "SLIPSTREAM_BOOTSTRAP_KEY": key}
    return subprocess.run(
        [sys.executable, SCRIPT, folder], env=environment, text=True, capture_output=True, check=False
    )


def test_two_installations_never_share_a_password(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert make(tmp_path / name).returncode == 0
    passwords = [(tmp_path / name / "postgres_password").read_text() for name in ("one", "two")]
    assert passwords[0] != passwords[1]
    assert min(len(password) for password in passwords) >= 40


def test_a_second_start_keeps_the_password(tmp_path: Path) -> None:
    make(tmp_path)
    before = (tmp_path / "postgres_password").read_text()
    assert make(tmp_path).returncode == 0
    assert (tmp_path / "postgres_password").read_text() == before


def test_a_chosen_password_reaches_the_database_url_whatever_its_characters(tmp_path: Path) -> None:
    make(tmp_path, chosen="p@ss/w:rd %")
    url = urlsplit((tmp_path / "database_url").read_text())
    assert url.password == "p%40ss%2Fw%3Ard%20%25"
    assert (url.hostname, url.username, url.path) == ("postgres", "slipstream", "/slipstream")


def test_another_password_than_the_data_was_made_with_is_refused_with_the_remedy(tmp_path: Path) -> None:
    make(tmp_path)
    done = make(tmp_path, chosen="another")
    assert done.returncode == 1
    assert "docs/compose.md" in done.stderr
    assert "another" not in done.stderr.replace("another password", "")


def test_each_service_may_read_what_it_gets_and_none_may_write_it(tmp_path: Path) -> None:
    make(tmp_path)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "postgres_password": 0o444,
        "database_url": 0o444,
        "api_key": 0o444,
    }


def test_the_first_key_is_one_that_the_ledger_takes_and_stays(tmp_path: Path, connection: Connection) -> None:
    make(tmp_path)
    key = (tmp_path / "api_key").read_text()
    make(tmp_path)
    assert (tmp_path / "api_key").read_text() == key
    assert ensure_key(connection, key, Scope, name="bootstrap")
    assert key.startswith(KEY_START)


def test_a_chosen_key_takes_its_place(tmp_path: Path) -> None:
    make(tmp_path)
    chosen = new_key()
    make(tmp_path, key=chosen)
    assert (tmp_path / "api_key").read_text() == chosen
    make(tmp_path)
    assert (tmp_path / "api_key").read_text() == chosen
