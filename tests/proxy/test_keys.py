"""Who may call: keys, scopes, their revocation, and what the door says before it looks at a body."""

import hashlib
import socket
import time
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from ledger.database import database_address
from ledger.keys import new_key, revoke_key
from ledger.vocabulary import Scope
from tests.proxy.callers import bearer, make
from tests.proxy.conftest import StartProxy
from tests.proxy.refusals import error_of
from tests.proxy.running import RunningProxy, eventually

MESSAGES = [{"role": "user", "content": "Hi"}]
PROTECTED = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/default"),
    ("POST", "/v1/trajectories/x/reward"),
    ("POST", "/v1/rewards"),
    ("GET", "/v1/trajectories"),
    ("GET", "/v1/trajectories/x"),
    ("GET", "/v1/steps"),
    ("GET", "/v1/versions"),
    ("GET", "/metrics"),
    ("GET", "/v1/nothing"),
    ("POST", "/sessions/x/v1/chat/completions"),
]
ODD_HOSTS = [
    "localhost:4000/#@attacker.example", "localhost/v1/models?", "localhost/health?", "localhost/health", "a@b", "a#b",
    "a?b", "a b", "localhost\\@evil", "//health", "localhost:4000/ready#", "127.0.0.1/metrics?x=",
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_without_a_key_every_route_is_a_401_that_says_what_to_do(
    closed: RunningProxy, method: str, path: str
) -> None:
    refused = closed.client.request(method, path)
    assert (refused.status_code, error_of(refused)["code"]) == (401, "invalid_api_key")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in error_of(refused)["message"]


def test_an_odd_host_opens_no_route(closed: RunningProxy, admin_key: str) -> None:
    """B134 B143: always 401 without a key, whatever the Host header says; with one, a 400."""
    for method, path in PROTECTED:
        for host in ODD_HOSTS:
            refused = closed.client.request(method, path, headers={"host": host})
            assert refused.status_code == 401, (path, host)
    for host in ODD_HOSTS:
        odd = closed.client.get("/v1/models", headers={"host": host, **bearer(admin_key)})
        assert (odd.status_code, error_of(odd)["param"]) == (400, "Host")


@pytest.mark.parametrize(
    "said",
    ["' OR '1'='1", "' OR 1=1--", "admin'--", "'; DROP TABLE api_keys;--", '" OR ""="', "%27%20OR%201=1", "sk-slip-%",
     "sk-slip-' UNION SELECT 1--", "null", "true", "*", "\\", "sk-slip-" + "a" * 5000, "é" * 40],
)  # fmt: skip
def test_sql_in_a_key_is_an_unknown_key(closed: RunningProxy, said: str) -> None:
    """B133"""
    headers = {b"authorization": b"Bearer " + said.encode()}
    refused = closed.client.get("/v1/models", headers=headers)
    assert (refused.status_code, error_of(refused)["code"]) == (401, "invalid_api_key")
    assert said not in error_of(refused)["message"]
    assert closed.client.get("/v1/models", headers={b"x-api-key": said.encode()}).status_code == 401
    assert closed.rows("SELECT count(*) FROM api_keys")[0][0] == 1


def test_a_stored_hash_a_prefix_and_another_scheme_are_no_keys(closed: RunningProxy, admin_key: str) -> None:
    """B136: what the database holds opens nothing."""
    digest = hashlib.sha256(admin_key.encode())
    [row] = closed.rows("SELECT prefix, encode(key_hash, 'hex') AS hash, id FROM api_keys")
    for said in (digest.hexdigest(), row.hash, f"\\x{row.hash}", row.prefix, admin_key[:-1], str(row.id)):
        assert closed.client.get("/v1/models", headers=bearer(said)).status_code == 401
        assert closed.client.get("/v1/models", headers={"x-api-key": said}).status_code == 401
    for whole in (f"Basic {admin_key}", admin_key, f"Bearer {admin_key} x", "Bearer", "x"):
        assert closed.client.get("/v1/models", headers={"authorization": whole}).status_code == 401


def test_the_ways_to_send_a_key(closed: RunningProxy, admin_key: str) -> None:
    for headers in (bearer(admin_key), {"authorization": f"bearer  {admin_key}"}, {"x-api-key": admin_key}):
        assert closed.client.get("/v1/models", headers=headers).status_code == 200
    both = {**bearer(new_key()), "x-api-key": admin_key}
    assert closed.client.get("/v1/models", headers=both).status_code == 401  # Authorization counts


@pytest.mark.parametrize("where", ["/v1/models?api_key={}", "/v1/models/{}", "/sessions/{}/v1/models"])
def test_a_key_in_the_url_never_works_and_is_never_repeated(
    closed: RunningProxy, admin_key: str, where: str
) -> None:
    """B126: even beside a good header."""
    for key in (admin_key, admin_key.replace("-", "%2D", 1)):
        for headers in ({}, bearer(admin_key)):
            refused = closed.client.get(where.format(key), headers=headers)
            assert refused.status_code == 401
            assert admin_key not in refused.text
            assert "revoke it" in error_of(refused)["message"]


def test_anthropics_sdk_reads_the_refusal_in_its_own_shape(closed: RunningProxy, admin_key: str) -> None:
    body = {"model": "claude", "max_tokens": 4, "messages": MESSAGES}
    refused = closed.client.post("/v1/messages", json=body, headers={"x-api-key": new_key()})
    assert refused.status_code == 401
    assert (refused.json()["type"], refused.json()["error"]["code"]) == ("error", "invalid_api_key")
    answer = closed.client.post("/v1/messages", json=body, headers={"x-api-key": admin_key})
    assert answer.status_code != 401


def test_a_revoked_key_is_refused_within_a_second_while_a_version_loads(
    start_proxy: StartProxy, engine: Engine, vllm: Any
) -> None:
    """A live version that takes long to load delays no revocation; only the notice is needed (watch: 60 s)."""
    key = make(engine, Scope.INFER)
    proxy = start_proxy(watch_seconds=60)
    vllm.faults.loading_seconds = 20
    with engine.begin() as connection:
        connection.execute(text("UPDATE policies SET live_version = 1"))
        connection.execute(text("NOTIFY slipstream_live"))
    eventually(lambda: any(seen.path == "/v1/load_lora_adapter" for seen in vllm.seen))
    with engine.begin() as connection:
        revoke_key(connection, key)
    began = time.monotonic()
    eventually(lambda: proxy.client.get("/v1/models", headers=bearer(key)).status_code == 401, 5)
    assert time.monotonic() - began < 1


def test_the_table_of_keys_outlives_postgres(
    start_proxy: StartProxy, engine: Engine, administrator: Connection, database_url: str
) -> None:
    key = make(engine, Scope.INFER)
    proxy = start_proxy()
    name = database_address(database_url).database
    administrator.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
    gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
    administrator.execute(text(gone), {"name": name})
    try:
        eventually(lambda: proxy.client.get("/ready").status_code == 503)
        assert proxy.chat(headers=bearer(key)).status_code == 200
        assert proxy.chat().status_code == 401
    finally:
        administrator.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    with engine.begin() as connection:
        revoke_key(connection, key)
    eventually(lambda: proxy.chat(headers=bearer(key)).status_code == 401)


def test_a_body_is_not_read_for_a_stranger(closed: RunningProxy) -> None:
    """B076: the 401 comes while the body has not been sent yet."""
    host, port = closed.url.removeprefix("http://").split(":")
    for path in ("/v1/chat/completions", "/v1/trajectories/x/reward"):
        with socket.create_connection((host, int(port)), timeout=5) as client:
            head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\n"
            client.sendall(head.encode())
            assert client.recv(64).startswith(b"HTTP/1.1 401 ")


def test_two_keys_that_share_their_first_characters_never_see_each_others_rows(
    start_proxy: StartProxy, engine: Engine
) -> None:
    """B135: CVE-2026-35030 looked keys up by their first 20 characters."""
    first = new_key()
    second = first[:40] + new_key()[8:24]
    make(engine, Scope.ADMIN, project="acme", key=first)
    make(engine, Scope.ADMIN, project="other", key=second)
    proxy = start_proxy()
    for key, name in ((first, "mine"), (second, "theirs")):
        assert proxy.chat(headers={**bearer(key), "x-trajectory-id": name}).status_code == 200
    proxy.exchanges(2)
    for key, seen, unseen in ((first, "mine", "theirs"), (second, "theirs", "mine")):
        listed = proxy.client.get("/v1/trajectories", headers=bearer(key)).json()["data"]
        assert [row["external_id"] for row in listed] == [seen]
        assert proxy.client.get(f"/v1/trajectories/{unseen}", headers=bearer(key)).status_code == 404
