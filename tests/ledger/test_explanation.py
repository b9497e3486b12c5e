"""GET …/explain, without HTTP: the whole story of a trajectory, in data and in words."""

import json
from typing import Any

import pytest
from sqlalchemy import Connection, text

from ledger.explanation import story
from ledger.explanation.facts import read_explanation
from ledger.explanation.words import MEANING, REMEDY, WAITING_REMEDY
from ledger.identifiers import choice_id
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.comparisons import Comparison, post_comparison
from ledger.rewards.metrics import Metric, declare_metric
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import (
    BaselineKind,
    ExchangeStatus,
    GroupKind,
    GroupWaitsFor,
    IdentifiedBy,
    NotCounted,
    Reason,
    Verdict,
    WaitsFor,
)
from ledger.workers import worker_started
from tests.ledger.calls import a_call, a_choice, a_policy, an_attribution, n_call
from tests.ledger.learned import fill


def explained(connection: Connection, target: object, project: str = "default") -> dict[str, Any]:
    found = read_explanation(connection, project, str(target))
    assert found is not None
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def test_every_word_has_a_meaning_and_a_remedy() -> None:
    words = {*Reason, *WaitsFor}
    assert MEANING.keys() == words
    assert REMEDY.keys() == words
    assert WAITING_REMEDY.keys() == set(GroupWaitsFor)


def test_the_story_has_words_for_every_value() -> None:
    assert story.IDENTIFIED.keys() == set(IdentifiedBy)
    assert story.KINDS.keys() == set(GroupKind)
    assert story.BASELINES.keys() == set(BaselineKind)
    assert story.COUNTS_NOT.keys() == set(NotCounted)
    assert story.WAITS_FOR.keys() | {GroupWaitsFor.STEP} == set(GroupWaitsFor)


def test_a_trained_trajectory_tells_its_step_its_baseline_and_its_advantage(connection: Connection) -> None:
    _, call = fill(connection)
    found = explained(connection, call.attribution.trajectory_id)
    assert (found["verdict"], found["verdict_reason"], found["remedies"]) == ("trained", None, [])
    [exchange] = found["exchanges"]
    [sample] = exchange["samples"]
    assert (sample["step_version"], sample["baseline"], sample["advantage"]) == (1, 0.375, -0.375)
    assert not sample["is_reward_changed"]
    told = "\n".join(found["story"])
    assert "was identified as a new one" in told
    assert "compared with 0.375, from the choices of its call: advantage -0.375" in told
    assert "The group is trained by step 1." in told
    assert found["story"][-1] == "Verdict: trained. A published version learned from it."


def test_a_reward_that_changed_after_training_is_told(connection: Connection) -> None:
    _, call = fill(connection)
    post_reward(connection, "default", RewardPost(str(call.call_id), value=-1.0, choice=0))
    found = explained(connection, call.attribution.trajectory_id)
    assert found["exchanges"][0]["samples"][0]["is_reward_changed"]
    assert found["is_reward_changed"]
    assert "Its reward was changed after that step read it: 0 then, -1 now." in found["story"]
    assert "Source user judged exchange" in "\n".join(found["story"])
    assert [event["not_counted_reason"] for event in found["events"]] == ["superseded", None]
    assert "superseded: the same source judged again, or took it back." in "\n".join(found["story"])


def test_a_waiting_trajectory_tells_what_would_help(connection: Connection) -> None:
    a_policy(connection)
    call = a_call(external_id="mine")
    record_calls(connection, [call])
    found = explained(connection, "mine")
    assert (found["verdict"], found["verdict_reason"]) == (Verdict.WAITING, WaitsFor.UNSCORED)
    assert found["remedies"] == [REMEDY["unscored"]]
    assert "the caller's 'mine'" in found["story"][0]
    assert found["story"][-1].startswith("What would help: POST /v1/trajectories/{id}/reward")


def test_an_id_of_another_project_is_unknown(connection: Connection) -> None:
    a_policy(connection)
    a_policy(connection, "acme")
    call = a_call()
    record_calls(connection, [call])
    assert read_explanation(connection, "acme", str(call.call_id)) is None
    assert read_explanation(connection, "default", "nobody") is None
    assert read_explanation(connection, "nowhere", str(call.call_id)) is None


def test_what_waits_for_a_choice_is_told_of_each_choice(connection: Connection) -> None:
    """Posted before the row was there, nobody could say that `choice` was missing."""
    a_policy(connection)
    call, other = n_call(2), a_call()
    name = f"chatcmpl-{call.call_id.hex}"
    assert '"choice": k' in str(post_reward(connection, "default", RewardPost(name, value=1.0)).note)
    post_comparison(connection, "default", Comparison(RewardPost(name), RewardPost(str(other.call_id))))
    record_calls(connection, [call, other])
    for choice in range(2):
        found = explained(connection, choice_id(call.attribution.trajectory_id, choice))
        assert [event["metric"] for event in found["without_choice"]] == ["reward", "comparison"]
        assert found["events"] == []
        assert f"Source user judged call {call.call_id}, which has several choices" in "\n".join(
            found["story"]
        )
    assert explained(connection, other.call_id)["without_choice"] == []
    post_reward(connection, "default", RewardPost(name, value=0.5, choice=1))
    assert len(explained(connection, choice_id(call.attribution.trajectory_id, 1))["events"]) == 1
    reasons = (
        connection.execute(text("SELECT not_counted_reason FROM v1.rewards ORDER BY id")).scalars().all()
    )
    assert sorted(map(str, reasons)) == ["None", "early", "early", "early"]


UNTRAINABLE: dict[Reason, CallRecord] = {
    Reason.MISSING_TOKEN_IDS: a_call(prompt_ids=None),
    Reason.MISSING_LOGPROBS: a_call(choices=[a_choice(sampling_logprobs=None)]),
    Reason.LOGPROBS_MISMATCH: a_call(choices=[a_choice(sampling_logprobs=[-1.0])]),
    Reason.VERSION_MISMATCH: a_call(answered_model="default@2"),
    Reason.GREEDY: a_call(temperature=0.0),
    Reason.CANCELLED: a_call(status=ExchangeStatus.CANCELLED),
    Reason.FAILED: a_call(status=ExchangeStatus.FAILED, choices=[]),
    Reason.INTERRUPTED: a_call(status=ExchangeStatus.INTERRUPTED, choices=[]),
    Reason.EMPTY_COMPLETION: a_call(choices=[a_choice(ids=[])]),
    Reason.EXTERNAL_MODEL: a_call(version=None, expected_model=None, answered_model="gpt-4o"),
    Reason.OPTED_OUT: a_call(attribution=an_attribution(turn_type="side")),
}


@pytest.mark.parametrize("reason", UNTRAINABLE, ids=str)
def test_what_the_recorder_left_out_says_why_in_column_and_story(
    connection: Connection, reason: Reason
) -> None:
    a_policy(connection)
    call = UNTRAINABLE[reason]
    record_calls(connection, [call])
    query = "SELECT verdict, verdict_reason FROM v1.exchanges UNION ALL SELECT verdict, verdict_reason FROM v1.trajectories"
    assert connection.execute(text(query)).all() == [("left_out", reason)] * 2
    row = connection.execute(text("SELECT is_trainable, untrainable_reason FROM v1.trajectories")).one()
    assert row == (False, reason)
    found = explained(connection, call.attribution.trajectory_id)
    assert found["story"][-2] == f"Verdict: left out, {reason}: {MEANING[reason]}."
    assert found["story"][-1] == f"What would help: {REMEDY[reason]}."
    post_reward(connection, "default", RewardPost(str(call.attribution.trajectory_id), value=1.0))
    assert connection.execute(text(query)).all() == [("left_out", reason)] * 2


def test_a_story_holds_no_word_of_the_conversation(connection: Connection) -> None:
    a_policy(connection)
    call = n_call(2, messages=[{"role": "user", "content": "SECRET"}])
    record_calls(connection, [call])
    post_reward(connection, "default", RewardPost(str(call.call_id), value=1.0, choice=0, comment="SECRET"))
    found = explained(connection, call.attribution.trajectory_id)
    assert "SECRET" not in json.dumps(found["story"])


def test_a_comparison_tells_with_whom_and_what_each_judgement_counts_as(connection: Connection) -> None:
    """3 of 1 to 5 stars are 0 of -1 to 1; the other side of a comparison has the worst, -1."""
    a_policy(connection)
    calls = [a_call(external_id=name) for name in ("a", "b")]
    record_calls(connection, calls)
    a, b = (str(call.attribution.trajectory_id) for call in calls)
    declare_metric(connection, "default", "default", Metric("stars", 1.0, 5.0, weight=2.0))
    post_reward(connection, "default", RewardPost("a", "stars", 3.0))
    post_comparison(connection, "default", Comparison(RewardPost("b"), RewardPost("a")))
    stars, compared = explained(connection, "a")["events"]
    assert (stars["compared_with"], stars["score"], compared["compared_with"], compared["score"]) == (
        None,
        0,
        b,
        -1,
    )
    told = "\n".join(explained(connection, "a")["story"])
    assert "stars = 3. It counts as 0, with weight 2." in told
    assert "Its reward is -0.333333 (mean of 2 scores;" in told  # (2 * 0 - 1) / 3
    assert f"comparison = 0 (compared with {b}). It counts as -1." in told
    assert f"comparison = 1 (compared with {a}). It counts as 1." in "\n".join(
        explained(connection, "b")["story"]
    )


@pytest.mark.parametrize("metric", ["comment", "demonstration"])
def test_words_do_not_count_for_want_of_a_value(connection: Connection, metric: str) -> None:
    """No policy can declare them: to declare is no remedy."""
    a_policy(connection)
    call = a_call(external_id="mine")
    record_calls(connection, [call])
    posted = post_reward(connection, "default", RewardPost("mine", metric, content="words"))
    assert posted.not_counted_reason == NotCounted.NO_VALUE
    assert "it has no value that could count" in (posted.note or "")
    [event] = explained(connection, "mine")["events"]
    assert (event["is_counted"], event["not_counted_reason"]) == (False, "no_value")


def test_remedies_fit_what_the_group_waits_for(connection: Connection) -> None:
    """A complete group needs no more rewards, and one that is alone has no other members."""
    a_policy(connection)
    worker_started(
        connection,
        policy="default",
        base_model="base",
        owner="one",
        settings={"group_grace_seconds": 30.0, "group_deadline_seconds": 600.0},
    )
    calls = n_call(2)
    record_calls(connection, [calls])
    lone = a_call(external_id="lone")
    record_calls(connection, [lone])
    post_reward(connection, "default", RewardPost("lone", value=1.0))
    for choice in (0, 1):
        post_reward(connection, "default", RewardPost(str(calls.call_id), value=float(choice), choice=choice))
    assert explained(connection, calls.attribution.trajectory_id)["remedies"] == [WAITING_REMEDY["step"]]
    assert explained(connection, "lone")["remedies"] == [WAITING_REMEDY["baseline"]]
