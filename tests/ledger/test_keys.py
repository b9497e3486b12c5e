"""Keys: shown once, stored as a hash, revocable, and heard of when their transaction commits."""

import hashlib
from collections.abc import Iterable

import psycopg
import pytest
from sqlalchemy import Connection, text

from ledger.errors import KeyRefusedError, LedgerError
from ledger.keys import KEYS_CHANNEL, create_key, ensure_key, list_keys, new_key, read_keys, revoke_key
from ledger.vocabulary import Scope
from tests.ledger.calls import rows


def test_a_key_is_stored_as_its_hash_and_its_beginning_alone(connection: Connection) -> None:
    """B128: no column of any table holds it."""
    key, info = create_key(connection, [Scope.REWARD, Scope.INFER], project="acme", name="ci")
    [row] = connection.execute(text("SELECT * FROM api_keys")).all()
    assert key not in str(row)
    assert bytes(row.key_hash) == hashlib.sha256(key.encode()).digest()
    assert key.startswith(row.prefix)
    assert (len(row.prefix), len(key)) == (16, 8 + 43)  # sk-slip- and 8 characters; 32 bytes as base64
    assert (info.scopes, info.project, info.name) == (["infer", "reward"], "acme", "ci")


def test_a_created_key_is_live_and_a_revoked_one_is_not_but_counts_as_a_row(connection: Connection) -> None:
    assert read_keys(connection).has_rows is False
    _, info = create_key(connection, [Scope.ADMIN], project="acme")
    [live] = read_keys(connection).live
    assert (live.id, live.project, live.scopes) == (info.id, "acme", {Scope.ADMIN})
    revoked = revoke_key(connection, info.prefix)
    assert revoked.revoked_at is not None
    assert (read_keys(connection).live, read_keys(connection).has_rows) == ((), True)
    assert revoke_key(connection, str(info.id)) == revoked


def test_a_key_can_be_revoked_by_its_whole_text_which_no_error_repeats(connection: Connection) -> None:
    key, _ = create_key(connection, [Scope.INFER])
    assert revoke_key(connection, key).revoked_at is not None
    unknown = new_key()
    with pytest.raises(KeyRefusedError, match="keys list") as refused:
        revoke_key(connection, unknown)
    assert unknown not in str(refused.value)


def test_a_beginning_that_two_keys_share_revokes_neither(connection: Connection) -> None:
    """B135: keys are never told apart by a part of them."""
    first = new_key()
    second = first[:30] + new_key()[8:]
    for key in (first, second):
        create_key(connection, [Scope.INFER], key=key)
    with pytest.raises(KeyRefusedError, match="2 keys"):
        revoke_key(connection, first[:16])
    assert len(read_keys(connection).live) == 2


@pytest.mark.parametrize(
    ("scopes", "key"),
    [
        ([], None),
        (["infer"], "sk-slip-short"),
        (["infer"], "secret" * 10),
        (["infer"], f"sk-slip-{'é' * 40}"),
    ],
)
def test_a_key_that_is_guessable_or_may_nothing_is_refused(
    connection: Connection, scopes: Iterable[Scope], key: str | None
) -> None:
    with pytest.raises(KeyRefusedError) as refused:
        create_key(connection, scopes, key=key)
    assert key is None or key not in str(refused.value)


@pytest.mark.parametrize("project", ["", "a@b", "../a", "a/b", "a b", "-a", "x" * 65])
def test_a_project_whose_name_no_directory_can_have_is_refused(connection: Connection, project: str) -> None:
    with pytest.raises(LedgerError, match="project name"):
        create_key(connection, [Scope.INFER], project=project)


def test_a_bootstrap_key_is_made_once_and_stays_revoked(connection: Connection) -> None:
    key = new_key()
    assert ensure_key(connection, key, [Scope.ADMIN], name="bootstrap")
    revoke_key(connection, key)
    assert not ensure_key(connection, key, [Scope.ADMIN], name="bootstrap")
    assert read_keys(connection).live == ()
    assert [info.name for info in list_keys(connection)] == ["bootstrap"]


def test_every_change_is_heard_when_it_commits(connection: Connection, database_url: str) -> None:
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as listener:
        listener.execute(f"LISTEN {KEYS_CHANNEL}")
        key, _ = create_key(connection, [Scope.INFER])
        assert list(listener.notifies(timeout=0.1)) == []
        connection.commit()
        assert len(list(listener.notifies(timeout=2, stop_after=1))) == 1
        revoke_key(connection, key)
        connection.commit()
        assert len(list(listener.notifies(timeout=2, stop_after=1))) == 1


def test_nothing_that_describes_a_key_shows_its_hash(connection: Connection) -> None:
    """B136."""
    key, info = create_key(connection, [Scope.INFER])
    digest = hashlib.sha256(key.encode())
    shown = repr([info, list_keys(connection), read_keys(connection)])
    assert digest.hexdigest() not in shown
    assert repr(digest.digest()) not in shown
    assert rows(connection, "SELECT count(*) FROM information_schema.columns "
                "WHERE table_schema = 'v1' AND column_name ~ 'key_hash'") == [(0,)]  # fmt: skip
