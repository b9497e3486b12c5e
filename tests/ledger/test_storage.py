"""What rows cost on disk: turns grow with what is new in them, and large values are lz4 where the server can."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import psycopg
import pytest
from sqlalchemy import Connection, text

from ledger.database import sync_engine
from ledger.partitions import ensure_partitions
from ledger.recording import record_calls
from ledger.records import CallRecord
from migrations import migrate
from tests.ledger.calls import a_call, a_choice, a_policy, rows
from tests.servers import running_postgres

ROW_BYTES = "SELECT pg_column_size(e.*) FROM exchanges AS e ORDER BY id"
PAYLOAD_BYTES = """
    SELECT coalesce(pg_column_size(messages), 0) + coalesce(pg_column_size(prompt_ids), 0)
        + coalesce(pg_column_size(completion_ids), 0) + coalesce(pg_column_size(response), 0) FROM exchanges ORDER BY id
"""
NUM_TURNS = 50
WORDS = [f"{word}{k}" for word in ("alpha", "beta", "gamma", "delta") for k in range(500)]


def long_conversation() -> list[CallRecord]:
    """50 turns; each question has 80 words and 120 tokens, each answer 60 words and 80 tokens."""
    random, calls, prompt, messages = Random(4), [], [1], []  # type: ignore[var-annotated]
    for _ in range(NUM_TURNS):
        prompt = [*prompt, *(random.randrange(50_000) for _ in range(120))]
        answer = [random.randrange(50_000) for _ in range(80)]
        messages = [*messages, {"role": "user", "content": " ".join(random.choices(WORDS, k=80))}]
        said = " ".join(random.choices(WORDS, k=60))
        choice = a_choice(ids=answer, text=said, response={"message": {"role": "assistant", "content": said}})
        calls.append(a_call(external_id="long", prompt_ids=prompt, messages=messages, choices=[choice]))
        prompt = [*prompt, *answer]
        messages = [*messages, {"role": "assistant", "content": said}]
    return calls


def test_a_conversation_of_fifty_turns_grows_linearly_in_bytes(connection: Connection) -> None:
    """The last turn's prompt has 9,921 tokens and 99 messages; it costs what the second one does, which has 321."""
    a_policy(connection)
    calls = long_conversation()
    for call in calls:
        record_calls(connection, [call])
    sizes = [size for (size,) in rows(connection, ROW_BYTES)]
    assert len(sizes) == NUM_TURNS
    assert max(sizes[1:]) < 1.15 * min(sizes[1:])
    record_calls(connection, [replace(call, attribution=replace(call.attribution, external_id=f"whole {k}"),
                                      call_id=a_call().call_id) for k, call in enumerate(calls)])  # fmt: skip
    whole = [size for (size,) in rows(connection, PAYLOAD_BYTES)][NUM_TURNS:]
    deltas = [size for (size,) in rows(connection, PAYLOAD_BYTES)][:NUM_TURNS]
    assert sum(whole) > 10 * sum(deltas), (sum(whole), sum(deltas))


def programs_with_lz4() -> Path | None:
    """A server that was built with lz4: TEST_LZ4_POSTGRES, or what Debian's postgresql brings."""
    given = os.environ.get("TEST_LZ4_POSTGRES")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return Path(given) if given else found[-1].parent if found else None


@pytest.fixture(scope="module")
def lz4_url() -> Iterator[str]:
    programs = programs_with_lz4()
    if programs is None:
        pytest.skip("no PostgreSQL with lz4 is installed (apt-get install postgresql, or TEST_LZ4_POSTGRES)")
    with (
        tempfile.TemporaryDirectory(prefix="slz-", dir="/tmp") as directory,
        running_postgres(Path(directory), programs) as url,
    ):
        with psycopg.connect(url) as connection:
            can = connection.execute(
                "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
            )
            if can.fetchone() != (True,):
                pytest.skip(f"{programs} was built without lz4")
        yield url


def test_large_values_are_lz4_where_the_server_can(lz4_url: str) -> None:
    """In the partitions that migrate made, and in one that was made later."""
    migrate(lz4_url)
    engine = sync_engine(lz4_url, pool_size=1)
    with engine.connect() as connection:
        a_policy(connection)
        record_calls(connection, long_conversation()[-1:])
        connection.commit()
        found = "SELECT pg_column_compression(messages), pg_column_compression(prompt_ids) FROM exchanges"
        assert rows(connection, found) == [("lz4", "lz4")]
        connection.rollback()
        ensure_partitions(connection, datetime(2031, 5, 1, tzinfo=UTC))
        compressed = text(
            "SELECT DISTINCT attcompression FROM pg_attribute WHERE attname IN ('messages', 'request', 'response',"
            " 'prompt_ids', 'completion_ids', 'logprobs', 'completion_text') AND attrelid::regclass::text LIKE 'exchanges%'"
            " AND attrelid IN (SELECT oid FROM pg_class WHERE relkind IN ('r', 'p'))"
        )
        assert connection.scalars(compressed).all() == ["l"]
    engine.dispose()
