"""The life of a reward event: each thing that may happen to one has a documented result (docs/decisions/0014)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from ledger.identifiers import first_id_at
from ledger.keys import create_key
from ledger.partitions import ensure_partitions, month_start
from ledger.recording import record_calls
from ledger.rewards.metrics import Metric, declare_metric
from ledger.vocabulary import Direction, Scope
from tests.ledger.calls import a_call
from tests.ledger.learned import used_by_a_step
from tests.proxy.running import RunningProxy, eventually


def post(proxy: RunningProxy, target: str, **body: Any) -> httpx.Response:
    return proxy.client.post(f"/v1/trajectories/{target}/reward", json=body)


def take_back(proxy: RunningProxy, target: str, **query: Any) -> dict[str, Any]:
    reply = proxy.client.delete(f"/v1/trajectories/{target}/reward", params=query)
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


def a_chat(proxy: RunningProxy, name: str = "run") -> str:
    """The reply's id; its row is there."""
    id_: str = proxy.chat(headers={"X-Trajectory-Id": name}).json()["id"]
    proxy.exchanges()
    return id_


def reward(proxy: RunningProxy) -> float | None:
    [row] = proxy.rows("SELECT reward FROM v1.trajectories")
    value: float | None = row.reward
    return value


def test_an_answer_says_whether_the_judgement_counts_and_if_not_why(proxy: RunningProxy) -> None:
    a_chat(proxy)
    assert post(proxy, "run", reward=0.5).json()["counts"] is True
    other = post(proxy, "run", reward=99, metric="latency").json()
    assert (other["status"], other["counts"], other["reason"]) == ("recorded", False, "other_metric")
    assert "slipstream metrics declare" in other["note"]
    early = post(proxy, "nobody", reward=1).json()
    assert (early["status"], early["counts"], early["reason"]) == ("early", False, "early")
    outranked = post(proxy, "run", reward=1, source="judge").json()
    assert (outranked["counts"], outranked["reason"]) == (False, "outranked")
    post(proxy, "run", reward=0.1, id="x")
    post(proxy, "run", reward=0.2)
    again = post(proxy, "run", reward=0.1, id="x").json()
    assert (again["status"], again["reason"]) == ("unchanged", "superseded")


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e400", "99999999.0", "-1.0001", '"1"', "null", "[1]"]
)
def test_what_is_no_reward_is_refused_and_names_field_and_range(proxy: RunningProxy, value: str) -> None:
    """B085, B111, B131: nothing but a finite number in the policy's range ever teaches."""
    a_chat(proxy)
    raw = b'{"reward": %s}' % value.encode()
    reply = proxy.client.post("/v1/trajectories/run/reward", content=raw)
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, "reward")
    assert proxy.rows("SELECT 1 FROM reward_events") == []


@pytest.mark.parametrize("is_early", [True, False])
def test_a_declared_range_is_checked_and_named(proxy: RunningProxy, is_early: bool) -> None:
    """7.5 s of 30, lower is better: three quarters of the way from -1 to 1."""
    with proxy.engine.begin() as connection:
        declare_metric(connection, "default", "default", Metric("latency", 0, 30, Direction.LOWER))
    if not is_early:
        a_chat(proxy)
    refused = post(proxy, "run", reward=31, metric="latency")
    assert refused.status_code == 422
    assert "'latency' is outside its range, 0.0 to 30.0" in refused.json()["error"]["message"]
    post(proxy, "run", reward=7.5, metric="latency")
    if is_early:
        a_chat(proxy)
    assert reward(proxy) == 0.5


def test_a_partial_reward_counts_and_a_final_one_takes_its_place(proxy: RunningProxy) -> None:
    a_chat(proxy)
    assert post(proxy, "run", reward=0.2, final=False).json()["counts"] is True
    assert proxy.rows("SELECT reward, is_final FROM v1.trajectories") == [(0.2, False)]
    assert post(proxy, "run", reward=0.2).json()["status"] == "recorded"
    assert proxy.rows("SELECT reward, is_final FROM v1.trajectories") == [(0.2, True)]


def test_a_replys_id_judges_the_reply_or_with_scope_the_whole(proxy: RunningProxy) -> None:
    reply = a_chat(proxy)
    assert post(proxy, reply, reward=1).json()["exchange_id"] is not None
    whole = post(proxy, reply, reward=-1, scope="trajectory").json()
    assert (whole["status"], whole["exchange_id"]) == ("recorded", None)
    assert proxy.rows("SELECT is_whole, exchange_id IS NULL FROM reward_events ORDER BY id") == [
        (False, False),
        (True, True),
    ]


def test_an_early_reward_of_the_whole_stays_one_of_the_whole(proxy: RunningProxy) -> None:
    with proxy.engine.begin() as connection:
        call = a_call(version=0)
        assert (
            post(proxy, f"chatcmpl-{call.call_id.hex}", reward=1, scope="trajectory").json()["status"]
            == "early"
        )
        assert post(proxy, f"chatcmpl-{call.call_id.hex}", reward=0).json()["status"] == "early"
        record_calls(connection, [call])
    found = proxy.rows("SELECT value, exchange_id FROM v1.rewards WHERE is_counted ORDER BY id")
    assert found == [(1.0, None), (0.0, call.call_id)]


@pytest.mark.parametrize(
    "body", [{"scope": "all"}, {"final": "yes"}, {"final": 1}, {"metric": "comparison"}, {"scope": 1}]
)
def test_a_wrong_field_is_named(proxy: RunningProxy, body: dict[str, Any]) -> None:
    reply = post(proxy, "run", reward=1, **body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, next(iter(body)))


@pytest.mark.parametrize(
    "content", ["four", {"role": "assistant", "content": "four"}, [{"role": "assistant", "content": "four"}]]
)
def test_a_demonstration_is_kept_beside_the_reward(proxy: RunningProxy, content: Any) -> None:
    reply = a_chat(proxy)
    answer = post(proxy, reply, metric="demonstration", content=content, comment="she wrote it").json()
    assert (answer["status"], answer["counts"], answer["reason"]) == ("recorded", False, "no_value")
    assert proxy.rows("SELECT value, content, comment FROM v1.rewards") == [(None, content, "she wrote it")]
    assert reward(proxy) is None


@pytest.mark.parametrize("content", ["", [], {}, 7, None, [1], ["x"], [[]], True, {"a": "x" * 100_001}])
def test_what_demonstrates_nothing_is_refused(proxy: RunningProxy, content: Any) -> None:
    reply = post(proxy, "run", metric="demonstration", content=content)
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, "content")


def test_a_demonstration_as_deep_as_the_sea_is_refused(proxy: RunningProxy) -> None:
    raw = b'{"metric": "demonstration", "content": ' + b'{"a":' * 400 + b"1" + b"}" * 401
    assert proxy.client.post("/v1/trajectories/run/reward", content=raw).status_code == 422


def test_a_reward_that_changes_after_training_is_visible_as_such(proxy: RunningProxy) -> None:
    a_chat(proxy)
    post(proxy, "run", reward=1)
    with proxy.engine.begin() as connection:
        used_by_a_step(connection, 1.0)
    changed = "SELECT reward, reward_when_trained, is_reward_changed FROM v1.trajectories"
    assert proxy.rows(changed) == [(1.0, 1.0, False)]
    assert post(proxy, "run", reward=-1).json()["counts"] is True
    assert proxy.rows(changed) == [(-1.0, 1.0, True)]
    take_back(proxy, "run")
    assert proxy.rows(changed) == [(None, 1.0, True)]


def test_a_reward_after_thirty_days_finds_its_row_in_an_older_month(proxy: RunningProxy) -> None:
    """The event lies in this month, its trajectory in an older one."""
    then = datetime.now(UTC) - timedelta(days=45)
    call = a_call(
        version=0,
        external_id="old",
        call_id=UUID(int=first_id_at(then).int + (7 << 76) + (2 << 62) + (1 << 20)),
    )
    with proxy.engine.connect() as connection:
        ensure_partitions(connection, also=[month_start(then)])
        record_calls(connection, [call])
        connection.commit()
    for target in ("old", f"chatcmpl-{call.call_id.hex}"):
        answer = post(proxy, target, reward=0.5).json()
        assert (answer["status"], answer["counts"]) == ("recorded", True)
    assert reward(proxy) == 0.5


def test_a_reward_for_a_row_that_cannot_be_trained_is_kept_and_counts(proxy: RunningProxy) -> None:
    proxy.chat(headers={"X-Trajectory-Id": "run", "X-Turn-Type": "side"})
    [row] = proxy.exchanges()
    assert row.untrainable_reason == "opted_out"
    assert post(proxy, "run", reward=1).json()["counts"] is True
    assert reward(proxy) == 1.0


def test_a_key_judges_its_own_project_and_only_with_the_scope(proxy: RunningProxy) -> None:
    """B130: a number is somebody's, of the same tenant, and its key is recorded."""
    a_chat(proxy)
    with proxy.engine.begin() as connection:
        judging, asking = (create_key(connection, [one])[0] for one in (Scope.REWARD, Scope.INFER))
        foreign = create_key(connection, [Scope.REWARD], project="acme")[0]

    def authorised(key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    eventually(lambda: proxy.client.post("/v1/rewards", json=[]).status_code == 401)
    url, body = "/v1/trajectories/run/reward", {"reward": 1}
    for route in (url, "/feedback", "/v1/comparisons"):
        assert proxy.client.post(route, json=body, headers=authorised(asking)).status_code == 403
    assert proxy.client.delete(url, headers=authorised(asking)).status_code == 403
    assert proxy.client.post(url, json=body, headers=authorised(foreign)).json()["status"] == "early"
    assert reward(proxy) is None
    assert proxy.client.post(url, json=body, headers=authorised(judging)).json()["status"] == "recorded"
    assert proxy.client.delete(url, headers=authorised(foreign)).json()["taken_back"]["value"] == 1.0
    assert reward(proxy) == 1.0
    assert all(row.key_id for row in proxy.rows("SELECT key_id FROM reward_events"))


def test_postgres_never_sees_a_number_that_it_cannot_multiply(proxy: RunningProxy) -> None:
    """5e-324 times a weight is an error in Postgres: one such reward would break every query over the view."""
    a_chat(proxy)
    with proxy.engine.begin() as connection:
        declare_metric(connection, "default", "default", Metric("tiny", 0, 1, weight=0.25))
    post(proxy, "run", reward=5e-324)
    post(proxy, "run", reward=5e-324, metric="tiny")
    assert reward(proxy) == pytest.approx((0 - 0.25) / 1.25)
    assert proxy.rows("SELECT score FROM v1.rewards ORDER BY id") == [(0.0,), (-1.0,)]
