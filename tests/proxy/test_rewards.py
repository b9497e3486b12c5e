"""POST /v1/trajectories/{id}/reward: strict, idempotent, durable when answered."""

import json
import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import text

from proxy.management import bounded, readiness
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually


def post(proxy: RunningProxy, target: str, **body: Any) -> httpx.Response:
    return proxy.client.post(f"/v1/trajectories/{target}/reward", json=body)


def test_a_reward_by_reply_id_trajectory_id_or_the_callers_own_id(proxy: RunningProxy) -> None:
    """I5: the row is there when the 200 is."""
    reply = proxy.chat(headers={"X-Trajectory-Id": "my/run 7"})
    [row] = proxy.exchanges()
    assert reply.headers["x-trajectory-id"] == "my/run 7"
    for target in (reply.json()["id"], str(row.trajectory_id), "my/run%207"):
        answer = post(proxy, target, reward=0.5, source=target)
        assert (answer.status_code, answer.json()["status"]) == (200, "recorded")
        assert answer.json()["trajectory_id"] == str(row.trajectory_id)
    assert len(proxy.rows("SELECT 1 FROM reward_events WHERE value = 0.5")) == 3


def test_a_reward_before_its_row_is_early_and_is_reconciled(proxy: RunningProxy) -> None:
    """I5"""
    assert post(proxy, "run-9", reward=True).json()["status"] == "early"
    proxy.chat(headers={"X-Trajectory-Id": "run-9"})
    proxy.exchanges()
    [event] = proxy.rows("SELECT * FROM reward_events")
    assert (event.value, event.trajectory_id is not None) == (1.0, True)


def test_the_same_again_changes_nothing_and_other_content_under_its_id_is_a_409(proxy: RunningProxy) -> None:
    proxy.chat(headers={"X-Trajectory-Id": "t"})
    proxy.exchanges()
    assert post(proxy, "t", reward=1, id="a").json()["status"] == "recorded"
    assert post(proxy, "t", reward=1, id="a").json()["status"] == "unchanged"
    conflict = post(proxy, "t", reward=0, id="a")
    assert (conflict.status_code, conflict.json()["error"]["code"]) == (409, "conflict")
    assert conflict.headers["x-should-retry"] == "false"


def test_a_reward_on_several_choices_says_which(proxy: RunningProxy) -> None:
    reply = proxy.chat(n=2, seed=1)
    proxy.exchanges(2)
    assert post(proxy, reply.json()["id"], reward=1).status_code == 422
    assert post(proxy, reply.json()["id"], reward=1, choice=1).json()["status"] == "recorded"
    assert (
        post(proxy, reply.headers["x-trajectory-id"].split(", ")[0], reward=0).json()["status"] == "recorded"
    )


@pytest.mark.parametrize(
    ("raw", "status", "param"),
    [
        (b'{"reward": NaN}', 422, "reward"),
        (b'{"reward": Infinity}', 422, "reward"),
        (b'{"reward": 1e400}', 422, "reward"),
        (b'{"reward": 1' + b"0" * 400 + b"}", 422, "reward"),
        (b'{"reward": "0.5"}', 422, "reward"),
        (b'{"reward": null}', 422, "reward"),
        (b"{}", 422, "reward"),
        (b'{"reward": 99999999.0}', 422, "reward"),
        (b'{"reward": 1, "choice": -1}', 422, "choice"),
        (b'{"reward": 1, "choice": true}', 422, "choice"),
        (b'{"reward": 1, "metric": 5}', 422, "metric"),
        (b'{"reward": 1, "source": "a\\u0000"}', 422, "source"),
        (b'{"reward": 1, "observed_at": "yesterday"}', 422, "observed_at"),
        (b'{"metric": "comment"}', 422, "comment"),
        (b'{"reward": 1, "coment": "why"}', 422, "coment"),
        (b'{"reward": 1, "target": "another"}', 422, "target"),
        (b'{"reward": 1, "content": "right"}', 422, "content"),
        (b"[0.5]", 400, None),
        (b"{", 400, None),
        (b"[" * 100_000, 400, None),
    ],
)
def test_wrong_rewards_are_refused_with_the_field_named(
    shared_proxy: RunningProxy, raw: bytes, status: int, param: str | None
) -> None:
    """B085 B131"""
    name = "wrong-rewards"
    if not shared_proxy.rows("SELECT 1 FROM trajectories WHERE external_id = :name", name=name):
        shared_proxy.chat(headers={"X-Trajectory-Id": name})
        eventually(
            lambda: shared_proxy.rows("SELECT 1 FROM trajectories WHERE external_id = :name", name=name)
        )
    response = shared_proxy.client.post(f"/v1/trajectories/{name}/reward", content=raw)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)
    assert not shared_proxy.rows("SELECT 1 FROM reward_events WHERE target = :name", name=name)


def test_comments_and_remarks_keep_any_text(proxy: RunningProxy) -> None:
    """B081 B084: U+0000 and lone surrogates are stored, never a 500."""
    raw = b'{"metric":"comment","comment":"a\\u0000b \\ud83d","observed_at":"2026-01-02T03:04:05Z"}'
    assert proxy.client.post("/v1/trajectories/t/reward", content=raw).status_code == 200
    assert post(proxy, "t", reward=1, comment="x\x00").status_code == 200
    assert len(proxy.rows("SELECT 1 FROM reward_events")) == 2


def test_what_the_ledger_holds_can_be_read(proxy: RunningProxy) -> None:
    raw = (
        b'{"messages":[{"role":"user","content":"\\ud83d \\u0000"}],"metadata":{"trajectory_id":"t","x":NaN}}'
    )
    assert proxy.client.post("/v1/chat/completions", content=raw).status_code == 200  # B081 B084
    proxy.exchanges()
    for path in ("/v1/trajectories", "/v1/steps", "/v1/versions", "/v1/trajectories?limit=5"):
        response = proxy.client.get(path)
        assert (response.status_code, response.json()["object"]) == (200, "list")
    assert json.loads(proxy.client.get("/v1/trajectories/t").content)["exchanges"][0]["messages"] == [
        {"role": "user", "content": "\ud83d \x00"}
    ]
    assert proxy.client.get("/v1/trajectories/unknown").json()["error"]["code"] == "not_found"
    assert proxy.client.get("/v1/trajectories?limit=x").json()["error"]["param"] == "limit"


def test_a_complete_group_nudges_the_trainer(start_proxy: StartProxy, valkey_url: str) -> None:
    import valkey

    proxy = start_proxy(redis_url=valkey_url)
    reply = proxy.chat(n=2, seed=1)
    proxy.exchanges(2)
    for choice in range(2):
        assert post(proxy, reply.json()["id"], reward=choice, choice=choice).status_code == 200
    with valkey.from_url(valkey_url) as client:
        eventually(lambda: client.llen("training"))
    eventually(lambda: proxy.metric("slipstream_nudges_total") == 1)


def test_a_nudge_that_fails_is_counted_and_nothing_else(start_proxy: StartProxy) -> None:
    """I6: losing the broker loses nothing."""
    proxy = start_proxy(redis_url="redis://127.0.0.1:1/0")
    reply = proxy.chat(n=2, seed=1)
    proxy.exchanges(2)
    for choice in range(2):
        assert post(proxy, reply.json()["id"], reward=choice, choice=choice).status_code == 200
    eventually(lambda: proxy.metric("slipstream_nudges_total"))


def test_a_frozen_postgres_is_a_503_in_time_and_writes_nothing_afterwards(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: what was answered 503 must not be written later, after what was posted in its stead."""
    monkeypatch.setattr(bounded, "WAIT_SECONDS", 0.5)
    with proxy.engine.connect() as connection:
        connection.execute(text("LOCK TABLE reward_events"))  # Postgres accepts the question, and is silent
        began = time.monotonic()
        answer = post(proxy, "frozen", reward=1)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ledger_unavailable")
        assert answer.headers["retry-after"] == "2"
        assert time.monotonic() - began < 5
    waiting = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%reward_events%' AND state <> 'idle' AND pid <> pg_backend_pid()"
    eventually(lambda: not proxy.rows(waiting))
    assert not proxy.rows("SELECT * FROM reward_events")
    assert post(proxy, "frozen", reward=0).json()["status"] == "early"


def test_ready_says_in_time_that_postgres_is_silent(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_WAIT_SECONDS", 0.5)
    with proxy.engine.connect() as connection:
        connection.execute(text("LOCK TABLE alembic_version"))
        answer = proxy.client.get("/ready", timeout=5)
        assert (answer.status_code, answer.json()["missing"]) == (
            503,
            ["Postgres did not answer within 0.5 s."],
        )


@pytest.mark.parametrize("name", ["s3://bucket/run", "a//b/", "v1/v1", "100%", "\u65e5\u672c", "caf\u00e9"])
def test_the_callers_own_id_means_the_same_in_a_header_a_path_and_a_reward(
    proxy: RunningProxy, name: str
) -> None:
    """An escaped slash is part of the id; an id is UTF-8 wherever it stands."""
    escaped = quote(name, safe="")
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    path = "/v1/chat/completions"
    sent = [
        proxy.client.post(path, json=body, headers={b"X-Trajectory-Id": name.encode()}),
        proxy.client.post(f"/sessions/{escaped}{path}", json=body),
        proxy.client.post(path, json={**body, "metadata": {"trajectory_id": name}}),
    ]
    assert [answer.status_code for answer in sent] == [200] * 3
    assert len({row.trajectory_id for row in proxy.exchanges(3)}) == 1
    assert post(proxy, escaped, reward=1).json()["status"] == "recorded"


def test_a_cursor_that_is_no_id_is_refused_and_not_the_first_page_again(proxy: RunningProxy) -> None:
    response = proxy.client.get("/v1/trajectories?after=garbage")
    assert (response.status_code, response.json()["error"]["param"]) == (422, "after")


def test_a_moment_beyond_the_calendar_is_refused(proxy: RunningProxy) -> None:
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        refused = post(proxy, "t", reward=1, observed_at=moment)
        assert (refused.status_code, refused.json()["error"]["param"]) == (422, "observed_at")


def test_a_deeply_nested_request_can_be_read_back(proxy: RunningProxy) -> None:
    """B084: never a 500. 700 levels are more than Python recurses in pairs of frames."""
    raw = '{"messages":[],"metadata":{"trajectory_id":"deep"},"x":' + "[" * 700 + "]" * 700 + "}"
    proxy.client.post("/v1/chat/completions", content=raw)
    proxy.exchanges()
    assert proxy.client.get("/v1/trajectories/deep").status_code == 200


def test_an_item_without_a_target_is_told_that_it_is_missing(proxy: RunningProxy) -> None:
    [item] = proxy.client.post("/v1/rewards", json=[{"reward": 1}]).json()["data"]
    assert (item["status"], item["error"]["param"]) == (422, "target")
    assert item["error"]["message"].startswith("'target' is missing: send a trajectory id")


def test_a_field_that_is_not_read_is_refused_with_the_nearest_one_that_is(shared_proxy: RunningProxy) -> None:
    """What was lost in silence: a remark, or whose judgement is taken back."""
    answer = post(shared_proxy, "misspelt", reward=1, coment="why").json()
    assert "did you mean 'comment'?" in answer["error"]["message"]
    wrong = shared_proxy.client.delete("/v1/trajectories/misspelt/reward?sourc=l1")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (422, "sourc")
    assert "did you mean 'source'?" in wrong.json()["error"]["message"]
    items = [{"target": "misspelt", "reward": 1, "metrik": "stars"}, {"target": "spelt", "reward": 1}]
    listed = shared_proxy.client.post("/v1/rewards", json=items).json()["data"]
    assert [listed[0]["error"]["param"], listed[1]["status"]] == ["metrik", "early"]
    sides = {"preferred": "misspelt", "other": {"target": "spelt", "chioce": 1}}
    for body, param in (({**sides, "sorce": "l1"}, "sorce"), (sides, "chioce")):
        compared = shared_proxy.client.post("/v1/comparisons", json=body)
        assert (compared.status_code, compared.json()["error"]["param"]) == (422, param)
    assert not shared_proxy.rows("SELECT 1 FROM reward_events WHERE target = 'misspelt'")
