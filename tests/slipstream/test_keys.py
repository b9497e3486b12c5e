"""`slipstream keys` on a real ledger: shown once, listed without secrets, revoked; and the bootstrap key of `migrate`."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ledger.errors import KeyRefusedError
from ledger.keys import create_key, list_keys, new_key, read_keys, revoke_key
from ledger.policies import ensure_policy
from ledger.schema import EXPECTED_REVISION
from ledger.vocabulary import Scope
from slipstream.cli import app
from slipstream.local.processes import has_keys
from slipstream.local.stack import greet
from slipstream.settings import StackSettings


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    return CliRunner()


def test_create_prints_the_key_alone_and_says_that_it_is_shown_once(run: CliRunner) -> None:
    done = run.invoke(app, ["keys", "create", "--scope", "infer", "--project", "acme", "--name", "ci"])
    assert re.fullmatch(r"sk-slip-[\w-]{43}\n", done.stdout)
    assert "shown once" in done.stderr
    assert "It may infer in project acme" in done.stderr
    assert "the first" in done.stderr
    again = run.invoke(app, ["keys", "create"])
    assert "It may infer, reward in project default" in again.stderr
    assert "the first" not in again.stderr


def test_list_shows_neither_keys_nor_hashes(run: CliRunner) -> None:
    """B136."""
    key = run.invoke(app, ["keys", "create", "--name", "[ci]"]).stdout.strip()
    digest = hashlib.sha256(key.encode()).hexdigest()
    for options in ([], ["--json"]):
        shown = run.invoke(app, ["keys", "list", *options]).stdout
        assert key[:16] in shown
        assert "[ci]" in shown
        assert key not in shown
        assert digest not in shown


def test_a_program_reads_every_answer_as_json(run: CliRunner) -> None:
    made = json.loads(run.invoke(app, ["keys", "create", "--scope", "admin", "--json"]).stdout)
    assert (made["scopes"], made["project"], made["key"][:16]) == (["admin"], "default", made["prefix"])
    [listed] = json.loads(run.invoke(app, ["keys", "list", "--json"]).stdout)
    assert listed == {name: value for name, value in made.items() if name != "key"}
    revoked = json.loads(run.invoke(app, ["keys", "revoke", made["id"], "--json"]).stdout)
    assert revoked["revoked_at"]


def test_revoke_takes_what_list_shows_and_refuses_what_no_key_has(run: CliRunner, engine: Engine) -> None:
    key = run.invoke(app, ["keys", "create"]).stdout.strip()
    refused = run.invoke(app, ["keys", "revoke", new_key()[:16]])
    assert isinstance(refused.exception, KeyRefusedError)
    assert run.invoke(app, ["keys", "revoke", key[:16]]).exit_code == 0
    with engine.connect() as connection:
        assert read_keys(connection).live == ()


def test_an_unknown_scope_is_refused_with_the_known_ones(run: CliRunner) -> None:
    refused = run.invoke(app, ["keys", "create", "--scope", "root"])
    assert refused.exit_code == 2
    assert all(scope in refused.stderr for scope in Scope)


def test_migrate_makes_the_bootstrap_key_once(
    run: CliRunner, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    monkeypatch.setenv("SLIPSTREAM_BOOTSTRAP_KEY", key)
    for _ in range(2):
        done = run.invoke(app, ["migrate"])
        assert (done.exit_code, done.output) == (0, f"The schema is up to date ({EXPECTED_REVISION}).\n")
    with engine.begin() as connection:
        [info] = list_keys(connection)
        assert (info.name, info.scopes) == ("bootstrap", ["infer", "reward", "admin"])
        revoke_key(connection, key)
    run.invoke(app, ["migrate"])
    with engine.connect() as connection:
        assert read_keys(connection).live == ()


def test_a_bootstrap_key_that_can_be_guessed_is_refused_unseen(
    run: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTREAM_BOOTSTRAP_KEY", "hunter2")
    refused = run.invoke(app, ["migrate"])
    assert isinstance(refused.exception, KeyRefusedError)
    assert "hunter2" not in str(refused.exception)


def test_status_and_versions_tell_projects_apart(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        for project in ("default", "acme"):
            ensure_policy(connection, name="default", base_model="b", project=project)
    status = json.loads(run.invoke(app, ["status", "--json"]).stdout)
    assert sorted(status["policies"]) == ["acme@default", "default"]
    versions = json.loads(run.invoke(app, ["versions", "--json"]).stdout)
    assert [(row["project"], row["model"]) for row in versions] == [
        ("acme", "default@0"),
        ("default", "default@0"),
    ]


class Lines:
    """A display that keeps what it is told."""

    def __init__(self) -> None:
        self.console = self
        self.text = ""

    def print(self, line: str, **_: object) -> None:
        self.text += f"{line}\n"


class UpHome:
    root = Path("/home")

    def __init__(self, database_url: str) -> None:
        self._run = {"environment": {"DATABASE_URL": database_url}}

    def running(self) -> dict[str, dict[str, str]]:
        return self._run


def test_up_says_whether_a_key_is_needed(engine: Engine, database_url: str) -> None:
    assert not has_keys(database_url)
    lines = Lines()
    greet(UpHome(database_url), StackSettings(), lines)  # type: ignore[arg-type]
    assert "no key exists yet: any is accepted" in lines.text
    assert "slipstream keys create" in lines.text
    with engine.begin() as connection:
        create_key(connection, [Scope.INFER])
    lines = Lines()
    greet(UpHome(database_url), StackSettings(), lines)  # type: ignore[arg-type]
    assert "sk-slip-" in lines.text
    assert "accepted" not in lines.text
