"""While no key exists: open on loopback, refused elsewhere."""

import time
from typing import Any

import pytest
from sqlalchemy import Engine, text

from ledger.errors import LedgerError
from ledger.keys import revoke_key
from ledger.vocabulary import Scope
from proxy.access.keys import is_loopback
from proxy.process import running_parts
from tests.proxy.callers import bearer, make
from tests.proxy.running import RunningProxy, eventually, free_port, settings_for, start_process


def test_on_loopback_any_key_is_accepted_until_the_first_exists(proxy: RunningProxy, engine: Engine) -> None:
    for headers in ({}, bearer("any"), {"authorization": "nonsense"}, {"x-api-key": "any"}):
        assert proxy.client.get("/v1/models", headers=headers).status_code == 200
    key = make(engine, Scope.INFER)
    began = time.monotonic()
    eventually(lambda: proxy.client.get("/v1/models").status_code == 401, 1)
    assert proxy.client.get("/v1/models", headers=bearer(key)).status_code == 200
    assert time.monotonic() - began < 1
    with engine.begin() as connection:
        revoke_key(connection, key)
    eventually(lambda: proxy.client.get("/v1/models", headers=bearer(key)).status_code == 401, 1)
    assert proxy.client.get("/v1/models").status_code == 401  # revoking the last one does not open the door
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM api_keys"))
    time.sleep(0.3)
    assert proxy.client.get("/v1/models").status_code == 401  # nor does losing the rows


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("", False), ("192.168.1.2", False), ("localhost.example", False), ("example.com", False)],
)  # fmt: skip
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.fixture
def open_settings(database_url: str, tmp_path: Any) -> dict[str, Any]:
    return {"database_url": database_url, "upstream": "http://127.0.0.1:1", "directory": tmp_path}


async def test_elsewhere_than_on_loopback_the_proxy_refuses_to_start_without_a_key(
    open_settings: dict[str, Any], engine: Engine
) -> None:
    settings = settings_for(**open_settings, host="0.0.0.0")
    with pytest.raises(LedgerError, match="slipstream keys create"):
        async with running_parts(settings):
            pass
    async with running_parts(settings_for(**open_settings, host="0.0.0.0", is_open_allowed=True)):
        pass
    make(engine, Scope.INFER)
    async with running_parts(settings):
        pass


def test_a_refused_start_is_one_sentence_and_an_exit_code(
    open_settings: dict[str, Any], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTREAM_HOST", "0.0.0.0")
    process = start_process(settings_for(**open_settings), free_port())
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"slipstream keys create" in errors
    assert b"Traceback" not in errors
