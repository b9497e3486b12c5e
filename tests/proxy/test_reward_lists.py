"""POST /v1/rewards: a list, each item answered for itself."""

import pytest

from ledger.keys import create_key
from ledger.vocabulary import Scope
from tests.proxy.running import RunningProxy, eventually


def test_a_list_is_answered_item_by_item(proxy: RunningProxy) -> None:
    """I5: a refused item stops no other, and the answers stand in the order of the items."""
    proxy.chat(headers={"X-Trajectory-Id": "a"})
    proxy.exchanges()
    sent = [
        {"target": "a", "reward": 1, "id": "1"},
        {"target": "a", "reward": "much", "id": "2"},
        {"reward": 1},
        7,
        {"target": "not here", "reward": 0.5},
        {"target": "a", "reward": 5},
        {"target": "a", "reward": 1, "id": "1"},
        {"target": "a", "reward": 0, "id": "1"},
    ]
    reply = proxy.client.post("/v1/rewards", json=sent)
    assert (reply.status_code, reply.json()["object"]) == (200, "list")
    data = reply.json()["data"]
    assert [item["status"] for item in data] == [
        "recorded", 422, 422, 422, "early", 422, "unchanged", 409,
    ]  # fmt: skip
    assert [item["error"]["param"] for item in data if "error" in item] == [
        "reward", "target", None, "reward", None,
    ]  # fmt: skip
    assert [row.value for row in proxy.rows("SELECT value FROM reward_events ORDER BY id")] == [1.0, 0.5]


@pytest.mark.parametrize("raw", [b'{"target": "a", "reward": 1}', b"[", b"[" + b"0," * 500 + b"0]"])
def test_what_is_no_list_of_at_most_500_is_refused_whole(proxy: RunningProxy, raw: bytes) -> None:
    reply = proxy.client.post("/v1/rewards", content=raw)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert proxy.rows("SELECT 1 FROM reward_events") == []


def test_a_reward_says_which_key_posted_it(proxy: RunningProxy) -> None:
    with proxy.engine.begin() as connection:
        key, _ = create_key(connection, [Scope.REWARD, Scope.INFER], name="judges")
    headers = {"authorization": f"Bearer {key}"}
    eventually(lambda: proxy.client.get("/v1/models").status_code == 401)
    answer = proxy.client.post("/v1/rewards", json=[{"target": "x", "reward": 1}], headers=headers)
    assert answer.json()["data"][0]["status"] == "early"
    [row] = proxy.rows("SELECT key_id, key_name FROM v1.rewards")
    assert row.key_name == "judges"
