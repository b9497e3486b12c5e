"""/v1/train over HTTP: steps by hand, what became of them, pause and resume."""

from collections.abc import Callable
from typing import Any

import pytest
from httpx import Response
from sqlalchemy import Engine, text

from ledger.identifiers import new_id
from ledger.policies import ensure_policy
from ledger.step_requests import next_request, refuse_request
from ledger.vocabulary import Scope
from tests.proxy.callers import bearer, make
from tests.proxy.refusals import error_of
from tests.proxy.running import RunningProxy, eventually


def policy_id(engine: Engine) -> Any:
    with engine.connect() as connection:
        return connection.scalar(text("SELECT id FROM policies WHERE name = 'default'"))


def test_a_step_by_hand_is_asked_for_and_followed(proxy: RunningProxy, engine: Engine) -> None:
    answer = proxy.client.post("/v1/train", json={"kind": "grpo", "arguments": {"skip_grace": True}})
    asked = answer.json()
    assert answer.status_code == 202
    assert (asked["object"], asked["policy"], asked["kind"], asked["state"]) == (
        "train.request",
        "default",
        "grpo",
        "waiting",
    )
    assert (asked["is_nudged"], asked["arguments"]) == (False, {"skip_grace": True})
    with engine.begin() as connection:
        found = next_request(connection, policy_id(engine))
        assert found is not None
        assert str(found.id) == asked["id"]
        refuse_request(connection, found.id, "No group is ready.")
    read = proxy.client.get(f"/v1/train/{asked['id']}").json()
    assert (read["state"], read["reason"], read["step_id"]) == ("refused", "No group is ready.", None)


def test_what_waits_can_be_withdrawn_and_what_does_not_cannot(proxy: RunningProxy) -> None:
    asked = proxy.client.post("/v1/train", json={"kind": "dpo"}).json()
    answer = proxy.client.delete(f"/v1/train/{asked['id']}")
    assert (answer.status_code, answer.json()["state"]) == (200, "refused")
    assert answer.json()["reason"] == "It was withdrawn before a step took it."
    again = proxy.client.delete(f"/v1/train/{asked['id']}")
    assert (again.status_code, error_of(again)["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"kind": "ppo"}, 422, "kind"),
        ({"kind": 1}, 422, "kind"),
        ({"policy": "default"}, 422, "kind"),
        ({"arguments": {}}, 422, "kind"),
        ({"kind": "grpo", "dry_run": True}, 422, "kind"),
        ({"kind": "grpo", "now": True}, 422, "now"),
        ({"kind": "grpo", "policy": "nobody"}, 404, "policy"),
        ({"kind": "grpo", "policy": "a\x00b"}, 422, "policy"),
        ({"kind": "grpo", "policy": ["default"]}, 422, "policy"),
        ({"kind": "grpo", "arguments": [1]}, 422, "arguments"),
        ({"kind": "grpo", "arguments": {"skip_grace": "yes"}}, 422, "arguments.skip_grace"),
        ({"kind": "dpo", "arguments": {"skip_grace": True}}, 422, "arguments.skip_grace"),
        ({"kind": "sft"}, 422, "arguments.from"),
        ({"kind": "sft", "arguments": {"from": "teacher", "epochs": 0}}, 422, "arguments.epochs"),
    ],
)
def test_a_wrong_wish_is_refused_with_its_field(
    proxy: RunningProxy, body: dict[str, Any], status: int, param: str
) -> None:
    answer = proxy.client.post("/v1/train", json=body)
    assert (answer.status_code, error_of(answer)["param"]) == (status, param)
    assert proxy.rows("SELECT 1 FROM step_requests") == []


@pytest.mark.parametrize("request_id", ["pause", "7", str(new_id()), "a%00b"])
def test_a_request_that_is_not_there_is_a_404(proxy: RunningProxy, request_id: str) -> None:
    ask: Callable[[str], Response]
    for ask in (proxy.client.get, proxy.client.delete):
        answer = ask(f"/v1/train/{request_id}")
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")


def test_a_policy_is_paused_and_resumed_and_calls_are_answered_all_the_same(proxy: RunningProxy) -> None:
    answer = proxy.client.post(
        "/v1/train/pause", json={"policy": "default", "reason": "The rewards look odd."}
    )
    [paused] = answer.json()["data"]
    assert answer.status_code == 200
    assert (paused["policy"], paused["paused_reason"]) == ("default", "The rewards look odd.")
    assert paused["paused_at"] is not None
    ready = proxy.client.get("/ready")
    assert (ready.status_code, ready.json()["paused"]) == (200, [paused])
    assert proxy.chat().status_code == 200
    [resumed] = proxy.client.post("/v1/train/resume").json()["data"]
    assert (resumed["paused_at"], resumed["paused_reason"]) == (None, None)
    assert proxy.client.get("/ready").json()["paused"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("pause", {"reason": "two\nlines"}, 422, "reason"),
        ("pause", {"reason": "x" * 501}, 422, "reason"),
        ("pause", {"reason": 7}, 422, "reason"),
        ("pause", {"policy": "nobody"}, 404, "policy"),
        ("pause", {"polcy": "default"}, 422, "polcy"),
        ("resume", {"policy": "nobody"}, 404, "policy"),
        ("resume", {"reason": "why"}, 422, "reason"),
        ("resume", [], 400, None),
    ],
)
def test_a_wrong_pause_is_refused_with_its_field(
    proxy: RunningProxy, path: str, body: Any, status: int, param: str | None
) -> None:
    answer = proxy.client.post(f"/v1/train/{path}", json=body)
    assert (answer.status_code, error_of(answer)["param"]) == (status, param)
    assert proxy.rows("SELECT 1 FROM policies WHERE paused_at IS NOT NULL") == []


def test_each_project_pauses_and_asks_for_its_own(
    closed: RunningProxy, engine: Engine, admin_key: str
) -> None:
    with engine.begin() as connection:
        base_model = connection.scalar(text("SELECT base_model FROM policies"))
        ensure_policy(connection, name="default", base_model=base_model, project="acme")
    other = make(engine, Scope.ADMIN, project="acme")
    eventually(lambda: closed.client.get("/v1/versions", headers=bearer(other)).status_code == 200)
    ask = closed.client.post("/v1/train", json={"kind": "grpo"}, headers=bearer(other)).json()
    assert ask["project"] == "acme"
    path = f"/v1/train/{ask['id']}"
    assert closed.client.get(path, headers=bearer(admin_key)).status_code == 404
    assert closed.client.delete(path, headers=bearer(admin_key)).status_code == 404
    closed.client.post("/v1/train/pause", headers=bearer(other))
    paused = closed.rows(
        "SELECT p.name FROM policies JOIN projects p ON p.id = project_id WHERE paused_at IS NOT NULL"
    )
    assert [row.name for row in paused] == ["acme"]


@pytest.mark.parametrize("path", ["/v1/train", "/v1/train/pause", "/v1/train/resume"])
def test_a_key_that_may_not_administer_is_refused(closed: RunningProxy, engine: Engine, path: str) -> None:
    key = make(engine, Scope.INFER, Scope.REWARD)
    eventually(lambda: closed.client.get("/v1/models", headers=bearer(key)).status_code == 200)
    answer = closed.client.post(path, headers=bearer(key))
    assert (answer.status_code, error_of(answer)["code"]) == (403, "missing_scope")
