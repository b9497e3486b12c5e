"""Keys for tests, and the header that carries one."""

from sqlalchemy import Engine

from ledger.keys import create_key
from ledger.vocabulary import Scope


def make(engine: Engine, *scopes: Scope, project: str = "default", key: str | None = None) -> str:
    with engine.begin() as connection:
        return create_key(connection, scopes, project=project, key=key)[0]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}
