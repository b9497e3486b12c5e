"""Canary keys over a whole run, then a search of everything that the run has left: logs, replies, metrics, rows, files."""

import base64
import hashlib
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text

from ledger.keys import create_key, new_key, revoke_key
from ledger.vocabulary import Scope
from tests.fakes.vllm import FakeVllm
from tests.proxy.running import eventually, proxy_process, settings_for

MESSAGES = [{"role": "user", "content": "Hi"}]


def spellings(key: str) -> Iterator[bytes]:
    """What would be a leak: the key, its secret part, and its hash as hex, bytes and base64."""
    digest = hashlib.sha256(key.encode()).digest()
    yield key.encode()
    yield key[16:].encode()  # behind the prefix that may be shown
    yield from (digest, digest.hex().encode(), base64.b64encode(digest))


def requests_of_all_kinds(client: httpx.Client, vllm: FakeVllm, key: str) -> Iterator[httpx.Response]:
    """Served, refused and broken calls with this key, in every place where a client may put it."""
    for headers in (
        {"authorization": f"Bearer {key}"},
        {"x-api-key": key},
        {"authorization": f"Basic {key}"},
    ):
        for body in ({"messages": MESSAGES}, {"messages": MESSAGES, "stream": True}, {"messages": 1}):
            yield client.post("/v1/chat/completions", json=body, headers=headers)
        yield client.post("/v1/messages", json={"messages": MESSAGES, "max_tokens": 2}, headers=headers)
        yield client.post("/v1/trajectories/t/reward", json={"reward": 1}, headers=headers)
        yield client.post("/v1/trajectories/t/reward", json={"reward": "x"}, headers=headers)
        for path in ("/v1/models", "/v1/trajectories/t", "/v1/steps", "/metrics", "/ready", "/v1/nothing"):
            yield client.get(path, headers=headers)
        for path in (
            f"/v1/models?api_key={key}",
            f"/v1/{key}",
            f"/sessions/{key}/v1/models",
            f"/health?key={key}",
        ):
            yield client.get(path, headers=headers)
        vllm.faults.die_after_events = 1
        yield client.post(
            "/v1/chat/completions", json={"messages": MESSAGES, "stream": True}, headers=headers
        )
        vllm.faults.die_after_events = None


def rows_of_all_tables(engine: Engine) -> bytes:
    """Every row of every table and view as JSON, without the one column that holds the hashes."""
    with engine.connect() as connection:
        names = connection.scalars(
            text("SELECT table_schema || '.' || table_name FROM information_schema.tables "
                 "WHERE table_schema IN ('public', 'v1')")
        ).all()  # fmt: skip
        rows = [
            connection.scalars(text(f"SELECT (to_jsonb(t) - 'key_hash')::text FROM {n} AS t")) for n in names
        ]
        return "\n".join(row for of_table in rows for row in of_table).encode()


def test_no_key_and_no_hash_is_left_anywhere(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B125 B126 B128 B136"""
    monkeypatch.setenv("SLIPSTREAM_LOG_LEVEL", "DEBUG")
    with engine.begin() as connection:
        good, _ = create_key(connection, Scope)
        revoked, _ = create_key(connection, Scope)
        revoke_key(connection, revoked)
    canaries = [good, revoked, new_key()]
    settings = settings_for(database_url, vllm.url, tmp_path)
    answers: list[httpx.Response] = []
    with proxy_process(settings, engine) as (proxy, process):
        for key in canaries:
            answers += requests_of_all_kinds(proxy.client, vllm, key)
        eventually(lambda: len(proxy.rows()) >= 6)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert {answer.status_code for answer in answers} >= {200, 400, 401, 404, 422}
    left = {
        "logs": errors,
        "replies": b"\n".join(answer.content + repr(answer.headers).encode() for answer in answers),
        "rows": rows_of_all_tables(engine),
        "files": b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()),
        "vllm": b"\n".join(repr(seen).encode() for seen in vllm.seen),
    }
    leaks = [
        (place, key[:16])
        for place, held in left.items()
        for key in canaries
        for s in spellings(key)
        if s in held
    ]
    assert leaks == []
    assert good[:16].encode() in left["rows"]  # the search finds what is there


def test_a_log_line_hides_what_looks_like_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    """B125: whoever's it is, wherever in a line it stands."""
    import structlog

    from ledger.logs import configure_logs

    try:
        configure_logs("proxy")
        key = new_key()
        structlog.get_logger().info("tried", path=f"/v1/{key}", keys=[key, "sk-ant-api03-" + "a" * 40])
    finally:
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
    line = capsys.readouterr().err
    assert line.count("sk-…") == 3
    assert key[8:] not in line
