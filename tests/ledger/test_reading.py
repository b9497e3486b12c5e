import json

import pytest
from sqlalchemy import Connection

from ledger.identifiers import choice_id
from ledger.reading import list_steps, list_trajectories, list_versions, read_trajectory
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_choice, a_policy, conversation
from tests.ledger.learned import fill

ODD = "a\x00\ud83d\x1a"


def test_a_trajectory_is_read_whole_by_any_of_its_ids(connection: Connection) -> None:
    fill(connection)
    turns = conversation(3)
    found = read_trajectory(connection, "default", "talk")
    assert found is not None
    assert [turn["messages"] for turn in found["exchanges"]] == [turn.messages for turn in turns]
    assert [turn["prompt_ids"] for turn in found["exchanges"]] == [turn.prompt_ids for turn in turns]
    assert found["reward"] == -1.0
    assert [event["value"] for event in found["rewards"]] == [-1.0]
    assert (found["group"]["kind"], found["group"]["num_members"], found["steps"]) == ("prompt", 1, [])
    for text_id in (found["id"], "chatcmpl-" + found["exchanges"][0]["id"].replace("-", "")):
        assert read_trajectory(connection, "default", text_id) == found
    json.dumps(found, allow_nan=False)


def test_a_trajectory_says_which_steps_used_it(connection: Connection) -> None:
    _, call = fill(connection)
    found = read_trajectory(connection, "default", str(choice_id(call.attribution.trajectory_id, 3)))
    assert found is not None
    assert [(step["version"], step["advantage"], step["is_used"]) for step in found["steps"]] == [
        (1, 0.375, True)
    ]
    by_call = read_trajectory(connection, "default", f"chatcmpl-{call.call_id.hex}")
    assert by_call is not None
    assert by_call["id"] == str(call.attribution.trajectory_id)


@pytest.mark.parametrize(
    ("project", "text_id"), [("other", "talk"), ("none", "talk"), ("default", "unknown")]
)
def test_what_is_not_ours_is_unknown(connection: Connection, project: str, text_id: str) -> None:
    fill(connection)
    a_policy(connection, "other")
    assert read_trajectory(connection, project, text_id) is None


def test_odd_text_and_numbers_come_back(connection: Connection) -> None:
    """B081, B084, B085: as the caller sent them; only what JSON has no number for is null."""
    a_policy(connection)
    choice = a_choice(ids=[1], text=ODD, sampling_logprobs=[float("-inf")])
    record_calls(connection, [a_call(external_id=ODD, messages=[{ODD: float("nan")}], choices=[choice])])
    found = read_trajectory(connection, "default", ODD)
    assert found is not None
    (turn,) = found["exchanges"]
    assert (found["external_id"], turn["completion_text"], turn["sampling_logprobs"]) == (ODD, ODD, [None])
    assert json.dumps(turn["messages"], allow_nan=False) == json.dumps([{ODD: None}])


def test_trajectories_are_listed_in_pages_newest_first(connection: Connection) -> None:
    fill(connection)
    whole = [row["id"] for row in list_trajectories(connection, "default", 100)]
    assert len(whole) == 10
    assert whole == sorted(whole, reverse=True)
    first = [row["id"] for row in list_trajectories(connection, "default", 4)]
    rest = [row["id"] for row in list_trajectories(connection, "default", 100, first[-1])]
    assert first + rest == whole
    assert list_trajectories(connection, "other", 100) == []


def test_steps_and_versions_are_listed_newest_first(connection: Connection) -> None:
    fill(connection)
    (step,) = list_steps(connection, "default", 10)
    assert (step["version"], step["state"], step["metrics"], step["num_used"]) == (
        1,
        "published",
        {"loss": 0.5},
        3,
    )
    versions = list_versions(connection, "default")
    assert [(version["model"], version["is_live"]) for version in versions] == [
        ("default@1", True),
        ("default@0", False),
    ]
    json.dumps([step, versions], allow_nan=False)
