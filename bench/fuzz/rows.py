"""The ledger against what the client and the mock saw: every captured answer and every call that ran is a row."""

import time
from collections.abc import Iterable
from uuid import UUID

import psycopg

_WAIT_SECONDS = 30.0


def missing_answers(url: str, request_ids: Iterable[str]) -> list[str]:
    """Request ids of replies that said `x-captured: true` and are in no row."""
    return _missing(url, "SELECT DISTINCT request_id FROM exchanges", set(request_ids))


def missing_calls(url: str, seen: Iterable[str]) -> list[str]:
    """Ids of calls that reached vLLM and are in no row. A row's id is its call's, with the choice in the last 16 bits."""
    wanted = {str(UUID(name)) for name in seen}
    return _missing(url, "SELECT DISTINCT left(id::text, -4) || '0000' FROM exchanges", wanted)


def statuses(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        return dict(connection.execute("SELECT status, count(*) FROM exchanges GROUP BY 1").fetchall())


def _missing(url: str, question: str, wanted: set[str]) -> list[str]:
    """Rows come within a second or so of their replies; we wait longer before we call one lost."""
    deadline = time.monotonic() + _WAIT_SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            lost = wanted - {row[0] for row in connection.execute(question)}
            if not lost or time.monotonic() > deadline:
                return sorted(lost)
            time.sleep(0.5)
