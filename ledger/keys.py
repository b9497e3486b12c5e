"""Keys of the data plane: made once, shown once, kept as SHA-256 alone. A key is known by its whole hash, never by a part.

32 random bytes need no slow hash and no salt (docs/decisions/0008-keys.md). Every change is told on KEYS_CHANNEL when
its transaction commits.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Select, func, insert, select, text, update

from ledger.errors import KeyRefusedError
from ledger.identifiers import new_id
from ledger.policies import ensure_project
from ledger.tables import api_keys, projects
from ledger.text import to_storable_text
from ledger.vocabulary import DEFAULT_PROJECT, Scope

KEYS_CHANNEL = "slipstream_keys"
KEY_START = "sk-slip-"
_NUM_BYTES = 32
_NUM_SHOWN = 8  # 48 of the 256 random bits
_KEY = re.compile(rf"{KEY_START}[A-Za-z0-9_-]{{32,256}}")


@dataclass(frozen=True, slots=True)
class LiveKey:
    """A key that works, as the proxy knows it."""

    key_hash: bytes = field(repr=False)
    id: UUID
    project: str
    scopes: frozenset[Scope]


@dataclass(frozen=True, slots=True)
class KeyTable:
    """All keys that work, and whether there ever was one (revoked ones count)."""

    live: tuple[LiveKey, ...] = ()
    has_rows: bool = False


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What may be said about a key: neither the key nor its hash."""

    id: UUID
    prefix: str
    name: str | None
    project: str
    scopes: list[str]
    created_at: datetime
    revoked_at: datetime | None


def new_key() -> str:
    return KEY_START + secrets.token_urlsafe(_NUM_BYTES)


def hash_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def create_key(
    connection: Connection,
    scopes: Iterable[Scope],
    *,
    project: str = DEFAULT_PROJECT,
    name: str | None = None,
    key: str | None = None,
) -> tuple[str, KeyInfo]:
    """The key, which nobody can read again, and what may be said about it. A project that is new is made.

    Raises KeyRefusedError for a given key that is too short, or taken, and for no scope at all.
    """
    key = key or new_key()
    if not _KEY.fullmatch(key):
        raise KeyRefusedError(
            f"A key begins with {KEY_START} and has at least 32 letters, digits, dashes and underscores behind it."
        )
    known = [scope for scope in Scope if scope in set(scopes)]
    if not known:
        raise KeyRefusedError("A key needs a scope: infer, reward or admin.")
    if connection.scalar(select(api_keys.c.id).where(api_keys.c.key_hash == hash_of(key))):
        raise KeyRefusedError("This key exists already.")
    row = {
        "id": new_id(),
        "project_id": ensure_project(connection, project),
        "prefix": key[: len(KEY_START) + _NUM_SHOWN],
        "key_hash": hash_of(key),
        "scopes": [str(scope) for scope in known],
        "name": name and to_storable_text(name),
    }
    connection.execute(insert(api_keys).values(row))
    _tell(connection)
    return key, _to_info(connection.execute(_infos().where(api_keys.c.id == row["id"])).one())


def ensure_key(connection: Connection, key: str, scopes: Iterable[Scope], *, name: str) -> bool:
    """Make this very key in the default project, unless it is there, revoked or not. True if it was made."""
    if connection.scalar(select(api_keys.c.id).where(api_keys.c.key_hash == hash_of(key))):
        return False
    create_key(connection, scopes, name=name, key=key)
    return True


def list_keys(connection: Connection) -> list[KeyInfo]:
    """The newest first, revoked ones included."""
    return [_to_info(row) for row in connection.execute(_infos().order_by(api_keys.c.id.desc()))]


def revoke_key(connection: Connection, said: str) -> KeyInfo:
    """By id, by the prefix that `list` shows, or by the whole key. Revoking again changes nothing.

    Raises KeyRefusedError if no key, or more than one, is meant.
    """
    found = [info for info in list_keys(connection) if said in (str(info.id), info.prefix)]
    if not found:
        by_hash = _infos().where(api_keys.c.key_hash == hash_of(said))
        found = [_to_info(row) for row in connection.execute(by_hash)]
    if len(found) != 1:
        several = f"{len(found)} keys begin so: say the id" if found else "No key has this id or prefix"
        raise KeyRefusedError(f"{several}; `slipstream keys list` shows them.")
    of = api_keys.c
    connection.execute(
        update(api_keys).where(of.id == found[0].id, of.revoked_at.is_(None)).values(revoked_at=func.now())
    )
    _tell(connection)
    return _to_info(connection.execute(_infos().where(of.id == found[0].id)).one())


def read_keys(connection: Connection) -> KeyTable:
    """Every key that works. Revoked rows are looked for only where there is none."""
    of = api_keys.c
    live = select(of.key_hash, of.id, of.scopes, projects.c.name.label("project")).join_from(
        api_keys, projects
    )
    rows = connection.execute(live.where(of.revoked_at.is_(None))).all()
    has_rows = bool(rows) or connection.scalar(select(of.id).limit(1)) is not None
    return KeyTable(tuple(_to_live(row) for row in rows), has_rows)


def _to_live(row: Any) -> LiveKey:
    """A scope that this version does not know gives no right."""
    scopes = frozenset(scope for scope in Scope if scope in row.scopes)
    return LiveKey(bytes(row.key_hash), row.id, row.project, scopes)


def _infos() -> Select[tuple[object, ...]]:
    of = api_keys.c
    columns = (of.id, of.prefix, of.name, of.scopes, of.created_at, of.revoked_at)
    return select(*columns, projects.c.name.label("project")).join_from(api_keys, projects)


def _to_info(row: Row[tuple[object, ...]]) -> KeyInfo:
    return KeyInfo(**row._mapping)  # noqa: SLF001 - public, despite its underscore


def _tell(connection: Connection) -> None:
    connection.execute(text(f"NOTIFY {KEYS_CHANNEL}"))
