"""An erasure takes the words of a user or a trajectory from every table, and leaves what the mathematics need."""

import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from ledger.erasure.erase import begin, erase_some, finish
from ledger.erasure.subject import Subject
from ledger.identifiers import new_call_id
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ErasureSubject
from tests.ledger.calls import a_call, a_choice, a_policy, an_attribution, conversation, rows
from tests.ledger.learned import fill
from tests.ledger.searching import places_of

MARK = "xyzzy-marker"
ANNA = Subject(ErasureSubject.USER, f"anna-{MARK}")


def erase(connection: Connection, subject: Subject, project: str = "default") -> dict[str, Any]:
    erasure = begin(connection, project, subject, "test")
    while erase_some(connection, erasure):
        pass
    return finish(connection, erasure)


def a_marked_call(**changes: Any) -> CallRecord:
    """The mark stands wherever a caller, or the model, may write something."""
    message = {"role": "user", "content": MARK}
    answer = {"message": {"role": "assistant", "content": MARK}}
    metadata = {"note": MARK}
    attribution = an_attribution(
        external_id=f"run-{MARK}", group_key=f"group-{MARK}", metadata=metadata, end_user=ANNA.name
    )
    call = a_call(
        attribution=attribution,
        messages=[message],
        request={"user": ANNA.name, "tools": [{"name": MARK}], "metadata": metadata, "stop": [MARK]},
        request_id=f"r-{MARK}",
        client_name=MARK,
        requested_model=MARK,
        error={"message": MARK},
        request_sha256="ab" * 32,
        choices=[a_choice(response=answer, text=MARK, stop_reason=MARK, conversation_sha256="cd" * 32)],
    )
    return replace(call, **changes)


def judge(connection: Connection, target: str) -> None:
    post_reward(
        connection, "default",
        RewardPost(target, value=0.5, comment=MARK, source=f"judge-{MARK}", idempotency_id=MARK),
    )  # fmt: skip
    post_reward(connection, "default", RewardPost(target, metric="comment", content=MARK))


def test_no_word_of_a_user_is_left_in_any_table(connection: Connection) -> None:
    a_policy(connection)
    call = a_marked_call()
    record_calls(connection, [call])
    judge(connection, f"run-{MARK}")
    assert len(places_of(connection, MARK)) > 10  # the test can fail
    report = erase(connection, ANNA)
    assert places_of(connection, MARK) == []
    assert (report["num_trajectories"], report["num_exchanges"], report["num_rewards"]) == (1, 1, 2)


def test_the_skeleton_keeps_what_the_mathematics_need(connection: Connection) -> None:
    a_policy(connection)
    call = a_marked_call()
    record_calls(connection, [call])
    judge(connection, str(call.call_id))
    erase(connection, ANNA)
    [row] = connection.execute(text("SELECT * FROM v1.exchanges")).all()
    assert (row.id, row.version, row.num_prompt_tokens, row.num_completion_tokens) == (call.call_id, 3, 3, 3)
    assert (row.is_trainable, row.untrainable_reason, row.status) == (False, "erased", "completed")
    assert row.erased_at is not None
    [trajectory] = connection.execute(
        text("SELECT reward, num_rewards, erased_at FROM v1.trajectories")
    ).all()
    assert (trajectory.reward, trajectory.num_rewards) == (0.5, 1)
    assert trajectory.erased_at is not None
    assert rows(connection, "SELECT untrainable_reason FROM exchanges") == [("erased",)]


@pytest.mark.parametrize("where", ["user", "safety_identifier", "metadata", "attribution"])
def test_a_user_is_found_wherever_a_request_may_name_one(connection: Connection, where: str) -> None:
    a_policy(connection)
    request: dict[str, Any] = {"user": {"user": "u"}, "metadata": {"metadata": {"user_id": "u"}}}.get(
        where, {where: "u"} if where == "safety_identifier" else {}
    )
    attribution = an_attribution(end_user="u" if where == "attribution" else None)
    record_calls(connection, [a_call(request=request, attribution=attribution)])
    assert erase(connection, Subject(ErasureSubject.USER, "u"))["num_exchanges"] == 1


@pytest.mark.parametrize("name", ["\x00a", "\ud800", "x" * 5000, "%_\\", "ünï", "' OR true"])
def test_any_name_is_found_and_no_other(connection: Connection, name: str) -> None:
    a_policy(connection)
    calls = [a_call(request={"user": user}) for user in (name, f"{name}y")]
    record_calls(connection, calls)
    erase(connection, Subject(ErasureSubject.USER, name))
    assert [id_ for (id_,) in rows(connection, "SELECT id FROM exchanges WHERE erased_at IS NULL")] == [
        calls[1].call_id
    ]


def test_another_projects_user_of_the_same_name_stays(connection: Connection) -> None:
    a_policy(connection)
    a_policy(connection, "acme")
    record_calls(connection, [a_marked_call(), a_marked_call(project="acme")])
    assert erase(connection, ANNA, "acme")["num_exchanges"] == 1
    left = rows(connection, "SELECT project FROM v1.exchanges WHERE erased_at IS NULL")
    assert left == [("default",)]


def test_all_turns_of_a_conversation_go_also_those_that_name_nobody(connection: Connection) -> None:
    a_policy(connection)
    turns = conversation(3)
    turns[0] = replace(turns[0], request={"user": "u"})
    record_calls(connection, turns)
    report = erase(connection, Subject(ErasureSubject.USER, "u"))
    assert (report["num_exchanges"], report["num_trajectories"]) == (3, 1)


def test_a_repeated_erasure_changes_nothing_and_answers_the_same(connection: Connection) -> None:
    fill(connection)
    connection.execute(text('UPDATE exchanges SET request = \'{"user": "u"}\''))
    first = erase(connection, Subject(ErasureSubject.USER, "u"))
    before = rows(connection, "SELECT * FROM exchanges ORDER BY id")
    again = erase(connection, Subject(ErasureSubject.USER, "u"))
    assert rows(connection, "SELECT * FROM exchanges ORDER BY id") == before
    assert {k: v for k, v in again.items() if k not in ("id", "requested_at", "finished_at")} == {
        k: v for k, v in first.items() if k not in ("id", "requested_at", "finished_at")
    }
    assert len(rows(connection, "SELECT 1 FROM erasures WHERE state = 'finished'")) == 2


@pytest.mark.parametrize("by", ["name", "reply", "id"])
def test_a_trajectory_is_erased_by_any_of_its_names(connection: Connection, by: str) -> None:
    a_policy(connection)
    call, other = a_marked_call(), a_call()
    record_calls(connection, [call, other])
    names = {
        "name": f"run-{MARK}", "reply": f"chatcmpl-{call.call_id.hex}", "id": str(call.attribution.trajectory_id),
    }  # fmt: skip
    assert erase(connection, Subject(ErasureSubject.TRAJECTORY, names[by]))["num_exchanges"] == 1
    assert places_of(connection, MARK) == []
    assert rows(connection, "SELECT id FROM exchanges WHERE erased_at IS NULL") == [(other.call_id,)]


def test_a_call_that_is_recorded_later_is_erased_as_it_comes(connection: Connection) -> None:
    """It had begun before, and waited in a spool. An early reward with words waited for it."""
    a_policy(connection)
    call = a_marked_call()
    judge(connection, f"run-{MARK}")
    erase(connection, ANNA)
    assert record_calls(connection, [call]) == [call.call_id]
    assert places_of(connection, MARK) == []
    [row] = connection.execute(text("SELECT * FROM v1.exchanges")).all()
    assert (row.num_completion_tokens, row.version, row.untrainable_reason) == (3, 3, "erased")
    assert rows(connection, "SELECT reward FROM v1.trajectories") == [(0.5,)]


def test_a_late_turn_that_names_only_the_trajectory_is_erased_too(connection: Connection) -> None:
    a_policy(connection)
    first = a_marked_call()
    late = a_call(external_id=f"run-{MARK}", messages=[{"role": "user", "content": MARK}])
    record_calls(connection, [first])
    erase(connection, ANNA)
    record_calls(connection, [late])
    assert places_of(connection, MARK) == []


def test_who_comes_back_begins_anew(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [a_marked_call()])
    erase(connection, ANNA)
    assert record_calls(connection, [a_marked_call(call_id=new_call_id())]) == []
    assert rows(connection, "SELECT count(*) FROM exchanges WHERE erased_at IS NULL") == [(1,)]
    assert rows(connection, "SELECT count(*) FROM trajectories") == [(2,)]


def test_what_goes_on_with_an_erased_trajectory_is_erased(connection: Connection) -> None:
    """The client still has the conversation, and says our own id."""
    a_policy(connection)
    first = a_marked_call()
    record_calls(connection, [first])
    erase(connection, ANNA)
    trajectory_id = str(first.attribution.trajectory_id)
    record_calls(connection, [a_call(external_id=trajectory_id, messages=[{"content": MARK}])])
    assert places_of(connection, MARK) == []
    post_reward(connection, "default", RewardPost(trajectory_id, value=1.0, comment=MARK, source=MARK))
    assert places_of(connection, MARK) == []


def test_an_erasure_that_was_killed_in_the_middle_is_gone_on_with(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three transactions of the five that it takes are committed; the same request does the rest, and counts all."""
    monkeypatch.setattr("ledger.erasure.erase.MOST_TRAJECTORIES", 2)
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [a_call(request={"user": "u"}) for _ in range(5)])
    subject = Subject(ErasureSubject.USER, "u")
    with engine.begin() as connection:
        killed = begin(connection, "default", subject, "test")
    for _ in range(2):
        with engine.begin() as connection:
            assert erase_some(connection, killed)
    with engine.connect() as connection, connection.begin():
        assert rows(connection, "SELECT count(*) FROM exchanges WHERE erased_at IS NULL") == [(1,)]
        report = erase(connection, subject)
    assert (report["num_exchanges"], report["num_trajectories"]) == (5, 5)
    assert report["id"] == str(killed.id)


def test_an_erasure_that_is_gone_on_with_erases_what_began_before_it_was_asked_for_again(
    connection: Connection,
) -> None:
    """Killed on Monday, asked for again on Friday: a call of Wednesday still waits in a spool."""
    a_policy(connection)
    begin(connection, "default", ANNA, "test")
    time.sleep(0.01)
    call = a_marked_call(call_id=new_call_id())
    time.sleep(0.01)
    erase(connection, ANNA)
    assert record_calls(connection, [call]) == [call.call_id]
    assert places_of(connection, MARK) == []


def test_a_long_conversation_is_erased_in_several_transactions(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.erasure.erase.MOST_EXCHANGES", 3)
    a_policy(connection)
    turns = conversation(8)
    turns[2] = replace(turns[2], request={"user": "u"})
    record_calls(connection, turns)
    assert erase(connection, Subject(ErasureSubject.USER, "u"))["num_exchanges"] == 8
