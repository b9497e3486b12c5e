"""What a check asks of the ledger. Whether Postgres answers at all is a check of its own."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from slipstream.running import Running

Found = TypeVar("Found")


def asked_of_ledger(running: Running, ask: Callable[[Connection], list[Found]]) -> list[Found]:
    """Nothing where it cannot be read: its own check says so."""
    from ledger.database import sync_engine

    url = running.variables.get("DATABASE_URL")
    if not url:
        return []
    engine = sync_engine(url, pool_size=1)
    try:
        with engine.connect() as connection:
            return ask(connection)
    except Exception:  # noqa: BLE001 - the database's own check tells
        return []
    finally:
        engine.dispose()
