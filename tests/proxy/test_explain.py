"""GET …/explain and POST /v1/train over HTTP."""

from threading import Thread
from time import monotonic

import pytest
from sqlalchemy import Engine

from ledger.plans import answer_plan, waiting_plan
from ledger.vocabulary import Scope
from tests.proxy.callers import bearer, make
from tests.proxy.conftest import StartProxy
from tests.proxy.refusals import error_of
from tests.proxy.running import RunningProxy, eventually


def test_a_trajectory_is_explained_by_each_of_its_ids(proxy: RunningProxy) -> None:
    reply = proxy.chat(headers={"X-Trajectory-Id": "my/run 7"})
    [row] = proxy.exchanges()
    for target in (reply.json()["id"], str(row.trajectory_id), "my/run%207"):
        answer = proxy.client.get(f"/v1/trajectories/{target}/explain")
        found = answer.json()
        assert (answer.status_code, found["object"]) == (200, "explanation")
        assert found["id"] == str(row.trajectory_id)
        assert (found["verdict"], found["verdict_reason"]) == ("waiting", "unscored")
        assert found["story"][0].endswith("was identified by the id in a header of its calls.")


def test_an_unknown_id_is_a_404(proxy: RunningProxy) -> None:
    answer = proxy.client.get("/v1/trajectories/nobody/explain")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    assert (
        "never where X-Slipstream-Capture: off was sent. Judgements that wait for it: 0."
        in error_of(answer)["message"]
    )
    proxy.client.post("/v1/trajectories/nobody/reward", json={"reward": 1})
    answer = proxy.client.get("/v1/trajectories/nobody/explain")
    assert "Judgements that wait for it: 1." in error_of(answer)["message"]


def test_without_a_dry_run_the_worker_is_nudged(proxy: RunningProxy) -> None:
    """The tests' proxy has no broker: that is said, and no error."""
    for body in (None, {}, {"dry_run": False}):
        answer = (
            proxy.client.post("/v1/train", json=body) if body is not None else proxy.client.post("/v1/train")
        )
        assert answer.status_code == 202
        assert answer.json()["object"] == "train"
        assert answer.json()["is_nudged"] is False


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"[", 400, None),
        (b"[]", 400, None),
        (b'{"dry_run": 1}', 422, "dry_run"),
        (b'{"dryrun": true}', 422, "dryrun"),
    ],
)
def test_a_wrong_body_is_refused_with_its_field(
    proxy: RunningProxy, body: bytes, status: int, param: str | None
) -> None:
    answer = proxy.client.post("/v1/train", content=body)
    assert (answer.status_code, error_of(answer)["param"]) == (status, param)


def test_a_plan_without_a_worker_is_a_503_that_says_how_to_start_one(
    start_proxy: StartProxy, engine: Engine
) -> None:
    proxy = start_proxy(plan_seconds=0.5)
    began_at = monotonic()
    answer = proxy.client.post("/v1/train", json={"dry_run": True})
    assert (answer.status_code, error_of(answer)["code"]) == (503, "no_worker")
    assert "slipstream worker" in error_of(answer)["message"]
    assert int(answer.headers["retry-after"]) > 0
    assert monotonic() - began_at < 10
    assert proxy.rows("SELECT 1 FROM plans") == []


@pytest.mark.parametrize(
    ("answered", "status"),
    [({"object": "plan", "policies": []}, 200), ({"object": "error", "message": "It cannot."}, 500)],
)
def test_a_plan_is_what_a_worker_answers(
    proxy: RunningProxy, engine: Engine, answered: dict[str, object], status: int
) -> None:
    def answer_once() -> bool:
        with engine.begin() as connection:
            question = waiting_plan(connection)
            if question:
                answer_plan(connection, question[0], answered)
        return question is not None

    worker = Thread(target=eventually, args=(answer_once,), daemon=True)
    worker.start()
    answer = proxy.client.post("/v1/train", json={"dry_run": True})
    worker.join(20)
    assert answer.status_code == status
    if status == 200:
        assert answer.json() == answered
    else:
        assert error_of(answer)["message"] == "It cannot."
    assert proxy.rows("SELECT 1 FROM plans") == []


def test_another_projects_trajectory_is_unknown(closed: RunningProxy, engine: Engine, admin_key: str) -> None:
    answer = closed.client.post(
        "/v1/chat/completions",
        json={"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        headers=bearer(admin_key) | {"X-Trajectory-Id": "theirs"},
    )
    assert answer.status_code == 200
    closed.exchanges()
    other = make(engine, Scope.ADMIN, project="acme")
    own = closed.client.get("/v1/trajectories/theirs/explain", headers=bearer(admin_key))
    assert own.status_code == 200
    eventually(
        lambda: closed.client.get("/v1/trajectories/theirs/explain", headers=bearer(other)).status_code == 404
    )
