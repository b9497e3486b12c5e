"""DELETE …/reward: what a source said last stands no more, and the history is kept."""

import pytest

from tests.proxy.running import RunningProxy
from tests.proxy.test_reward_life import a_chat, post, reward, take_back


def test_what_is_taken_back_counts_no_more_and_stays_in_the_history(proxy: RunningProxy) -> None:
    a_chat(proxy)
    post(proxy, "run", reward=1)
    post(proxy, "run", reward=0, source="program")
    taken = take_back(proxy, "run", comment="a mistake")
    assert (taken["status"], taken["taken_back"]["value"], taken["counts"]) == ("recorded", 1.0, False)
    assert reward(proxy) == 0.0
    again = take_back(proxy, "run")
    assert (again["status"], "taken_back" in again) == ("unchanged", False)
    nothing = take_back(proxy, "run", metric="stars")
    assert (nothing["status"], nothing["id"]) == ("unchanged", None)
    found = proxy.rows("SELECT value, not_counted_reason FROM v1.rewards ORDER BY id")
    assert found == [(1.0, "superseded"), (0.0, None), (None, "retraction")]
    assert post(proxy, "run", reward=1).json()["counts"] is True


def test_an_early_reward_is_taken_back_before_its_row_is_there(proxy: RunningProxy) -> None:
    post(proxy, "run", reward=1)
    taken = take_back(proxy, "run")
    assert (taken["status"], taken["taken_back"]["value"]) == ("early", 1.0)
    a_chat(proxy)
    assert reward(proxy) is None
    assert take_back(proxy, "never heard of")["status"] == "unchanged"
    assert len(proxy.rows("SELECT 1 FROM reward_events")) == 2


def test_only_the_reply_the_choice_and_the_source_that_are_named_are_taken_back(proxy: RunningProxy) -> None:
    reply = proxy.chat(n=2, seed=1, headers={"X-Trajectory-Id": "run"}).json()["id"]
    proxy.exchanges(2)
    for choice in (0, 1):
        post(proxy, reply, reward=1, choice=choice)
    assert take_back(proxy, reply, choice=1)["status"] == "recorded"
    assert proxy.client.delete(f"/v1/trajectories/{reply}/reward").status_code == 422
    assert take_back(proxy, reply, choice=0, source="somebody else")["status"] == "unchanged"
    raw = proxy.client.request(
        "DELETE", f"/v1/trajectories/{reply}/reward", json={"choice": 0, "scope": "trajectory"}
    )
    assert raw.json()["status"] == "unchanged"
    counted = proxy.rows(
        "SELECT x.choice_index FROM v1.rewards AS r JOIN exchanges AS x ON x.id = r.exchange_id WHERE is_counted"
    )
    assert counted == [(0,)]


@pytest.mark.parametrize("choice", ["9" * 5_000, "٣", "-1", "1.0", "many", "65536"])
def test_a_choice_that_is_no_index_is_refused(proxy: RunningProxy, choice: str) -> None:
    reply = proxy.client.delete("/v1/trajectories/run/reward", params={"choice": choice})
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, "choice")


def test_one_half_of_a_comparison_is_not_taken_back(proxy: RunningProxy) -> None:
    a_chat(proxy)
    for how in ({"params": {"metric": "comparison"}}, {"json": {"metric": "comparison"}}):
        reply = proxy.client.request("DELETE", "/v1/trajectories/run/reward", **how)
        assert (reply.status_code, reply.json()["error"]["param"]) == (422, "metric")
        assert "DELETE /v1/comparisons/" in reply.json()["error"]["message"]


def test_a_note_says_nothing_of_what_the_same_source_said_of_another_target(proxy: RunningProxy) -> None:
    a_chat(proxy)
    post(proxy, "run", reward=1)
    reply = proxy.rows("SELECT id FROM exchanges")[0].id
    taken = take_back(proxy, str(reply))
    assert (taken["status"], reward(proxy)) == ("unchanged", 1.0)
    assert "this very target" in taken["note"]
