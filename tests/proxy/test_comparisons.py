"""POST /v1/comparisons and POST /feedback: other bodies, the same events."""

from typing import Any

import httpx
import pytest

from tests.proxy.running import RunningProxy


def compare(proxy: RunningProxy, **body: Any) -> httpx.Response:
    return proxy.client.post("/v1/comparisons", json=body)


def chats(proxy: RunningProxy, *names: str) -> list[str]:
    ids = []
    for name in names:
        body = {"messages": [{"role": "user", "content": name}]}
        ids.append(proxy.chat(headers={"X-Trajectory-Id": name}, **body).json()["id"])
    proxy.exchanges(len(names))
    return ids


def test_a_comparison_is_two_judgements_and_a_group(proxy: RunningProxy) -> None:
    _, b = chats(proxy, "a", "b")
    answer = compare(proxy, preferred="a", other=b, comment="clearer").json()
    assert (answer["object"], answer["status"]) == ("comparison", "recorded")
    assert (answer["preferred"]["counts"], answer["other"]["exchange_id"] is not None) == (True, True)
    found = proxy.rows("SELECT external_id, reward, group_id FROM v1.trajectories ORDER BY external_id")
    assert [(row.external_id, row.reward, str(row.group_id)) for row in found] == [
        ("a", 1.0, answer["group_id"]), ("b", -1.0, answer["group_id"]),
    ]  # fmt: skip
    assert compare(proxy, preferred="a", other=b, comment="clearer").json()["status"] == "unchanged"


def test_an_id_that_says_something_else_is_a_409(proxy: RunningProxy) -> None:
    chats(proxy, "a", "b")
    assert compare(proxy, preferred="a", other="b", id="x").status_code == 200
    assert compare(proxy, preferred="a", other="b", id="x").json()["status"] == "unchanged"
    assert compare(proxy, preferred="b", other="a", id="x").status_code == 409


def test_it_is_taken_back_by_its_id(proxy: RunningProxy) -> None:
    chats(proxy, "a", "b")
    id_ = compare(proxy, preferred="a", other="b").json()["id"]
    taken = proxy.client.delete(f"/v1/comparisons/{id_}").json()
    assert [taken[half]["taken_back"]["value"] for half in ("preferred", "other")] == [1.0, 0.0]
    assert proxy.rows("SELECT reward FROM v1.trajectories") == [(None,), (None,)]
    assert proxy.client.delete(f"/v1/comparisons/{id_}").json()["status"] == "unchanged"
    compare(proxy, preferred="a", other="b", source="team", id="cmp/1")
    taken = proxy.client.delete("/v1/comparisons/cmp%2F1").json()
    assert (taken["status"], taken["preferred"]["taken_back"]["value"]) == ("recorded", 1.0)
    for unknown in ("run", "01970000-0000-7000-8000-000000000000"):
        assert proxy.client.delete(f"/v1/comparisons/{unknown}").status_code == 404


def test_choices_of_one_call_are_compared(proxy: RunningProxy) -> None:
    reply = proxy.chat(n=2, seed=1).json()["id"]
    proxy.exchanges(2)
    sides = [{"target": reply, "choice": choice} for choice in (1, 0)]
    assert compare(proxy, preferred=sides[0], other=sides[1]).json()["status"] == "recorded"
    assert compare(proxy, preferred=reply, other=sides[1]).json()["error"]["param"] == "choice"
    assert len(proxy.rows("SELECT 1 FROM reward_events")) == 2


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"preferred": "a"}, "other"), ({"other": "a"}, "preferred"), ({"preferred": 1, "other": "a"}, "preferred"),
        ({"preferred": "a", "other": "a"}, "other"), ({"preferred": "a", "other": ""}, "other"),
        ({"preferred": "a", "other": "b", "scope": "x"}, "scope"), ({"preferred": "a", "other": "b", "id": "x" * 241}, "id"),
    ],
)  # fmt: skip
def test_what_is_no_comparison_is_refused_with_its_field(
    proxy: RunningProxy, body: dict[str, Any], param: str
) -> None:
    reply = compare(proxy, **body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, param)
    assert proxy.rows("SELECT 1 FROM reward_events") == []


def feedback(proxy: RunningProxy, **body: Any) -> httpx.Response:
    return proxy.client.post("/feedback", json=body)


def test_feedback_is_a_reward_in_tensorzeros_words(proxy: RunningProxy) -> None:
    [reply] = chats(proxy, "a")
    [row] = proxy.rows("SELECT trajectory_id FROM exchanges")
    answer = feedback(proxy, metric_name="reward", inference_id=reply, value=True, tags={"page": "7"})
    [event] = proxy.rows("SELECT id, exchange_id, value, comment FROM v1.rewards")
    assert answer.json() == {"feedback_id": str(event.id)}
    assert (event.value, event.comment) == (1.0, '{"page": "7"}')
    feedback(proxy, metric_name="reward", episode_id=str(row.trajectory_id), value=0.5)
    feedback(proxy, metric_name="comment", episode_id=str(row.trajectory_id), value="well done")
    feedback(proxy, metric_name="demonstration", inference_id=reply, value="four")
    found = proxy.rows(
        "SELECT metric, value, content, exchange_id IS NOT NULL AS is_reply FROM v1.rewards ORDER BY id"
    )
    assert [tuple(one) for one in found][1:] == [
        ("reward", 0.5, None, False), ("comment", None, "well done", False), ("demonstration", None, "four", True),
    ]  # fmt: skip


def test_feedback_names_which_of_the_answers_of_a_call_it_judges(proxy: RunningProxy) -> None:
    reply = proxy.chat(n=2, seed=1).json()["id"]
    proxy.exchanges(2)
    refused = feedback(proxy, metric_name="reward", inference_id=reply, value=1)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "choice")
    assert '"choice": k' in refused.json()["error"]["message"]
    for choice in (0, 1):
        assert feedback(
            proxy, metric_name="reward", inference_id=reply, value=choice, choice=choice
        ).is_success
    found = proxy.rows(
        "SELECT x.choice_index, r.value FROM v1.rewards AS r JOIN exchanges AS x ON x.id = r.exchange_id ORDER BY r.id"
    )
    assert found == [(0, 0.0), (1, 1.0)]


def test_a_dry_run_is_checked_and_not_written(proxy: RunningProxy) -> None:
    assert (
        len(
            feedback(proxy, metric_name="reward", inference_id="x", value=1, dryrun=True).json()[
                "feedback_id"
            ]
        )
        == 36
    )
    assert feedback(proxy, metric_name="reward", inference_id="x", value="1", dryrun=True).status_code == 422
    assert proxy.rows("SELECT 1 FROM reward_events") == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"value": 1, "inference_id": "x"}, "metric_name"),
        ({"metric_name": "reward", "value": 1}, "inference_id"),
        ({"metric_name": "reward", "value": 1, "inference_id": "x", "episode_id": "y"}, "inference_id"),
        ({"metric_name": "reward", "inference_id": "x"}, "value"),
        ({"metric_name": "reward", "inference_id": "x", "value": "good"}, "value"),
        ({"metric_name": "reward", "inference_id": "x", "value": 7}, "reward"),
        ({"metric_name": "comment", "inference_id": "x", "value": 7}, "value"),
        ({"metric_name": "demonstration", "episode_id": "x", "value": "y"}, "inference_id"),
        ({"metric_name": "comparison", "inference_id": "x", "value": 1}, "metric_name"),
        ({"metric_name": "reward", "inference_id": "x", "value": 1, "tags": {"a": 1}}, "tags"),
        ({"metric_name": "reward", "inference_id": "x", "value": 1, "tags": 7}, "tags"),
        ({"metric_name": "reward", "inference_id": "x", "value": 1, "dryrun": 1}, "dryrun"),
        ({"metric_name": "reward", "inference_id": "x", "value": 1, "choice": -1}, "choice"),
    ],
)  # fmt: skip
def test_what_is_no_feedback_is_refused_in_our_envelope(
    proxy: RunningProxy, body: dict[str, Any], param: str
) -> None:
    reply = feedback(proxy, **body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, param)
