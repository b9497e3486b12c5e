"""What others share with an erased user stays theirs: their turns are readable, their groups keep their names."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from ledger.conversation import whole_exchanges
from ledger.erasure.subject import Subject
from ledger.reading import read_trajectory
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ErasureSubject
from tests.ledger.calls import a_call, a_choice, a_policy, conversation, rows
from tests.ledger.searching import places_of
from tests.ledger.test_erasure import MARK, erase


def test_turns_of_others_stay_readable_and_repeat_nothing(connection: Connection) -> None:
    """Two users in one session: 0 of bob, 1 of anna, 2 of bob (a delta of 1), 3 of bob."""
    a_policy(connection)
    turns = conversation(4)
    users = ["bob", "anna", "bob", "bob"]
    turns = [replace(t, request={"user": u}) for t, u in zip(turns, users, strict=True)]
    turns[1] = replace(turns[1], choices=[a_choice(ids=[1, 8, 2], text=MARK, response=said(MARK))])
    for turn in turns[2:]:
        assert turn.messages
        turn.messages[3] = {"role": "assistant", "content": MARK}
    record_calls(connection, turns)
    report = erase(connection, Subject(ErasureSubject.USER, "anna"))
    assert (report["num_exchanges"], report["num_trajectories"], report["num_shared"]) == (1, 0, 2)
    assert places_of(connection, MARK) == []
    assert places_of(connection, "question 1") == []
    found = read_trajectory(connection, "default", "talk")
    assert found
    assert [[m["content"] for m in e["messages"] or []] for e in found["exchanges"]] == [
        ["question 0"], [], ["question 2"], ["question 2", "hi", "question 3"],
    ]  # fmt: skip
    [whole] = whole_exchanges(connection, [turns[0].attribution.trajectory_id]).values()
    assert [exchange.is_trainable for exchange in whole] == [True, False, False, False]
    assert [exchange.prompt_ids is None for exchange in whole] == [False, True, True, True]


def said(content: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content}}


def test_a_shared_group_keeps_its_key_until_all_of_it_is_erased(connection: Connection) -> None:
    a_policy(connection)
    calls = [a_call(group="task", request={"user": user}) for user in ("anna", "bob")]
    record_calls(connection, calls)
    erase(connection, Subject(ErasureSubject.USER, "anna"))
    assert rows(connection, "SELECT key FROM groups") == [("task",)]
    erase(connection, Subject(ErasureSubject.USER, "bob"))
    assert [key.split(":")[0] for (key,) in rows(connection, "SELECT key FROM groups")] == ["erased"]


def test_a_judgement_of_an_erased_turn_has_no_words_though_others_share_its_trajectory(
    connection: Connection,
) -> None:
    """Before the erasure, or after it."""
    a_policy(connection)
    turns = [replace(t, request={"user": u}) for t, u in zip(conversation(2), ("bob", "anna"), strict=True)]
    record_calls(connection, turns)
    of_bob, of_anna = (RewardPost(str(turn.call_id), value=1.0, comment=MARK) for turn in turns)
    post_reward(connection, "default", of_anna)
    erase(connection, Subject(ErasureSubject.USER, "anna"))
    assert places_of(connection, MARK) == []
    post_reward(connection, "default", replace(of_anna, value=0.5))
    assert places_of(connection, MARK) == []
    post_reward(connection, "default", of_bob)
    assert rows(connection, "SELECT count(comment), count(*) FROM reward_events") == [(1, 3)]
