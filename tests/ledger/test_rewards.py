from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from ledger.errors import ChoiceNeededError, LedgerError, RewardConflictError, RewardOutOfRangeError
from ledger.identifiers import choice_id, new_call_id
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.metrics import Metric, declare_metric
from ledger.rewards.reading import trajectory_rewards
from tests.ledger.calls import a_call, a_policy, n_call, rows
from tests.ledger.judged import COUNTED, post


@pytest.fixture
def call(connection: Connection) -> CallRecord:
    """A recorded call, named "mine" by its caller."""
    a_policy(connection)
    call = a_call(external_id="mine")
    record_calls(connection, [call])
    return call


def reward_of(connection: Connection, call: CallRecord) -> float | None:
    id_ = call.attribution.trajectory_id
    return trajectory_rewards(connection, [id_]).get(id_)


def test_a_reward_is_recorded_by_any_id(connection: Connection, call: CallRecord) -> None:
    trajectory_id = call.attribution.trajectory_id
    whole = [str(trajectory_id), trajectory_id.hex, str(trajectory_id).upper(), "mine"]
    for target in whole:
        result = post(connection, target)
        assert (result.trajectory_id, result.exchange_id) == (trajectory_id, None)
    for target in (f"chatcmpl-{call.call_id.hex}", str(call.call_id), call.call_id.hex):
        result = post(connection, target)
        assert (result.trajectory_id, result.exchange_id) == (trajectory_id, call.call_id)
    assert rows(connection, "SELECT count(*) FROM reward_events") == [(2,)]


def test_the_same_judgement_again_is_unchanged_and_makes_no_row(
    connection: Connection, call: CallRecord
) -> None:
    """B095, B096."""
    first, again = post(connection, "mine", 0.5), post(connection, "mine", 0.5)
    assert (first.status, again.status) == ("recorded", "unchanged")
    assert first.event_id == again.event_id


def test_a_changed_judgement_counts_and_the_history_is_kept(connection: Connection, call: CallRecord) -> None:
    for value in (0.5, -0.5, 0.5):
        assert post(connection, "mine", value).status == "recorded"
    assert [reason for *_, reason in rows(connection, COUNTED)] == ["superseded", "superseded", None]
    assert reward_of(connection, call) == 0.5


def test_sources_and_exchanges_are_averaged_and_other_metrics_do_not_count(
    connection: Connection, call: CallRecord
) -> None:
    """(1 + 0 - 0.25) / 3 = 0.25."""
    post(connection, "mine", 1.0)
    post(connection, "mine", 0.0, source="program")
    post(connection, call.call_id, -0.25)
    post(connection, "mine", 99.0, metric="latency")
    post(connection, "mine", None, metric="comment", content="well\x00 done")
    assert reward_of(connection, call) == 0.25


def test_a_retraction_takes_back_what_its_source_said(connection: Connection, call: CallRecord) -> None:
    post(connection, "mine", 1.0)
    post(connection, "mine", 0.5, source="judge")
    assert post(connection, "mine", None, is_retraction=True).status == "recorded"
    assert reward_of(connection, call) == 0.5


def test_an_idempotency_id_means_one_judgement_for_ever(connection: Connection, call: CallRecord) -> None:
    """I5: also after the judgement was changed by another post."""
    first = post(connection, "mine", 1.0, idempotency_id="a")
    post(connection, "mine", 0.0, idempotency_id="b")
    again = post(connection, call.attribution.trajectory_id, 1.0, idempotency_id="a")
    assert (again.status, again.event_id) == ("unchanged", first.event_id)
    assert reward_of(connection, call) == 0.0


@pytest.mark.parametrize("changes", [{"value": 0.5}, {"metric": "m"}, {"source": "s"}, {"comment": "c"}])
def test_the_same_id_with_other_content_is_a_conflict(
    connection: Connection, call: CallRecord, changes: dict[str, Any]
) -> None:
    post(connection, "mine", 1.0, idempotency_id="a")
    with pytest.raises(RewardConflictError):
        post(connection, "mine", **{"value": 1.0, "idempotency_id": "a", **changes})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1.5, -99999999.0])
def test_a_reward_out_of_range_is_refused(connection: Connection, call: CallRecord, value: float) -> None:
    """B085, B131."""
    with pytest.raises(RewardOutOfRangeError):
        post(connection, "mine", value)


@pytest.mark.parametrize("idempotency_id", ["a", None])
def test_a_post_that_is_sent_again_after_its_range_was_narrowed_is_unchanged(
    connection: Connection, call: CallRecord, idempotency_id: str | None
) -> None:
    """Whoever tries again after a lost answer is told that it is stored; what is new is refused."""
    first = post(connection, "mine", 0.9, idempotency_id=idempotency_id)
    connection.execute(text("UPDATE policies SET reward_max = 0.5"))
    again = post(connection, "mine", 0.9, idempotency_id=idempotency_id)
    assert (again.status, again.event_id) == ("unchanged", first.event_id)
    with pytest.raises(RewardOutOfRangeError):
        post(connection, "mine", 0.9, idempotency_id="b", source="another")


def test_a_policys_range_is_bounded(connection: Connection, call: CallRecord) -> None:
    """Two rewards of 1.7e308 have no sum: v1.trajectories would answer nobody."""
    for bounds in (
        "reward_min = -1.7e308, reward_max = 1.7e308",
        "reward_max = 'infinity'",
        "reward_max = 'NaN'",
    ):
        with pytest.raises(IntegrityError, match="reward_range_bounded"), connection.begin_nested():
            connection.execute(text(f"UPDATE policies SET {bounds}"))
    connection.execute(
        text("UPDATE policies SET reward_min = -1e100, reward_max = 1e100, combination = 'sum'")
    )
    for source in ("a", "b"):
        post(connection, "mine", 1e100, source=source)
    assert connection.scalar(text("SELECT max(reward) FROM v1.trajectories")) == 2e100


def test_a_call_with_choices_needs_one_to_be_named(connection: Connection) -> None:
    a_policy(connection)
    call = n_call(3)
    record_calls(connection, [call])
    name = f"chatcmpl-{call.call_id.hex}"
    for choice in (None, 3):
        with pytest.raises(ChoiceNeededError, match="0, 1, 2"):
            post(connection, name, choice=choice)
    for index in range(3):
        result = post(connection, name, choice=index)
        assert result.exchange_id == choice_id(call.call_id, index)
        assert result.trajectory_id == choice_id(call.attribution.trajectory_id, index)
        assert result.group_is_ready == (index == 2)
    assert post(connection, choice_id(call.call_id, 1)).status == "unchanged"


@pytest.mark.parametrize("form", ["trajectory", "reply", "exchange", "name", "choice"])
def test_an_early_reward_is_reconciled_when_its_row_is_recorded(connection: Connection, form: str) -> None:
    """I5."""
    a_policy(connection)
    call = n_call(2, external_id="x") if form == "choice" else a_call(external_id="x")
    targets = {
        "trajectory": call.attribution.trajectory_id, "reply": f"chatcmpl-{call.call_id.hex}",
        "exchange": call.call_id, "name": "x", "choice": f"chatcmpl-{call.call_id.hex}",
    }  # fmt: skip
    choice = 1 if form == "choice" else None
    early = post(connection, targets[form], 0.5, choice=choice)
    again = post(connection, targets[form], 0.5, choice=choice)
    assert (early.status, early.trajectory_id, again.status) == ("early", None, "early")
    assert early.event_id == again.event_id
    assert [reason for *_, reason in rows(connection, COUNTED)] == ["early"]
    record_calls(connection, [call])
    late = post(connection, targets[form], 0.5, choice=choice)
    assert (late.status, late.event_id) == ("unchanged", early.event_id)
    assert trajectory_rewards(connection, [late.trajectory_id]) == {late.trajectory_id: 0.5}


def test_an_early_reward_that_names_no_choice_stays_early_and_visible(connection: Connection) -> None:
    a_policy(connection)
    call = n_call(2)
    post(connection, f"chatcmpl-{call.call_id.hex}")
    record_calls(connection, [call])
    assert [reason for *_, reason in rows(connection, COUNTED)] == ["early"]


def test_an_early_reward_out_of_range_is_kept_and_does_not_count(connection: Connection) -> None:
    """I5, I10: it was acknowledged before the range could be known."""
    a_policy(connection)
    call = a_call(external_id="x")
    post(connection, "x", 0.9)
    connection.execute(text("UPDATE policies SET reward_min = -0.5, reward_max = 0.5"))
    record_calls(connection, [call])
    assert [reason for *_, reason in rows(connection, COUNTED)] == ["out_of_range"]
    assert reward_of(connection, call) is None


def test_an_early_reward_that_fits_no_policy_of_the_project_is_refused(connection: Connection) -> None:
    a_policy(connection)
    with pytest.raises(RewardOutOfRangeError, match=r"-1\.0 to 1\.0"):
        post(connection, "not seen yet", 50.0)


def test_another_projects_id_behaves_as_unknown(connection: Connection, call: CallRecord) -> None:
    a_policy(connection, "other")
    for target in ("mine", call.call_id, call.attribution.trajectory_id):
        assert post(connection, target, project="other").status == "early"
    record_calls(connection, [a_call(project="other")])
    assert reward_of(connection, call) is None


def test_an_unknown_project_is_an_error(connection: Connection) -> None:
    with pytest.raises(LedgerError, match="no project"):
        post(connection, new_call_id(), project="none")


def test_odd_text_in_a_reward_is_stored(connection: Connection, call: CallRecord) -> None:
    """B081, B084, B085."""
    odd = "\x00\ud83d" * 400
    more = {
        "content": {odd: float("nan")},
        "comment": odd,
        "source": odd,
        "idempotency_id": odd,
        "metric": odd,
    }
    assert post(connection, odd, 1.0, **more).status == "early"
    assert post(connection, odd, 1.0, **more).status == "early"
    assert rows(connection, "SELECT count(*) FROM reward_events") == [(1,)]


def test_true_is_taken_where_one_is_the_end_of_the_range(connection: Connection, call: CallRecord) -> None:
    """Of 1 to 5 stars it would be the worst, of 0 to 10 next to it."""
    for name, smallest, largest in (("stars", 1.0, 5.0), ("marks", 0.0, 10.0), ("fine", 0.0, 1.0)):
        declare_metric(connection, "default", "default", Metric(name, smallest, largest))
    for name in ("stars", "marks"):
        for target in ("mine", "early"):
            with pytest.raises(
                RewardOutOfRangeError, match=r"true and false are 1 and 0, and metric .* send a number"
            ):
                post(connection, target, True, metric=name)
    for name in ("fine", "reward", "undeclared"):
        assert post(connection, "mine", True, metric=name).status == "recorded"
    values = rows(connection, "SELECT DISTINCT metric, value FROM reward_events ORDER BY metric")
    assert values == [("fine", 1.0), ("reward", 1.0), ("undeclared", 1.0)]
