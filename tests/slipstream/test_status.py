"""`slipstream status`: how much signal there is, in words and as JSON."""

import json

from sqlalchemy import Engine, text
from typer.testing import CliRunner

from ledger.pauses import find_learners, pause
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.step_requests import ask_step
from ledger.vocabulary import StepKind
from ledger.workers import worker_started
from slipstream.cli import app
from tests.ledger.calls import a_call, later, n_call

SETTINGS = {
    "step_groups": 8, "step_max_groups": 32, "step_max_wait_seconds": 900, "group_grace_seconds": 0,
    "group_deadline_seconds": 3600, "baseline_min_samples": 4, "running_baseline": True,
}  # fmt: skip


def add_odd_traffic(engine: Engine) -> None:
    """Greedy calls, and judgements that do not count."""
    with engine.begin() as connection:
        calls = [a_call(temperature=0.0) for _ in range(3)]
        record_calls(connection, calls)
        for number, call in enumerate(calls):
            target = str(call.attribution.trajectory_id)
            post_reward(connection, "default", RewardPost(target, metric="stars", value=float(number)))


def test_the_signal_of_a_small_ledger(run: CliRunner, engine: Engine) -> None:
    """B110: groups without variance are shown. learned.fill: 12 trainable exchanges, 9 scored trajectories, 3 samples used, one group waits."""
    add_odd_traffic(engine)
    found = json.loads(run.invoke(app, ["status", "--json"]).stdout)
    signal = found["policies"]["default"]
    assert (found["exchanges"], found["trainable_exchanges"]) == (15, 12)
    assert (signal["num_captured"], signal["num_trainable"], signal["untrainable"]) == (15, 12, {"greedy": 3})
    assert signal["greedy_share"] == 0.2
    assert signal["num_scored"] == 9
    assert signal["events"] == {
        "reward": {"num_counted": 9, "not_counted": {}},
        "stars": {"num_counted": 0, "not_counted": {"other_metric": 3}},
    }
    assert signal["groups"] == {"by_state": {"open": 3, "trained": 1}, "no_variance_share": 0.0}
    assert signal["used"] == {"num_exchanges": 3, "num_trajectories": 3, "num_tokens": 9}
    assert signal["next_step"] is None
    assert signal["evidence"]["num_rewards_by_version"] == {"0": 4, "1": 5}
    assert not signal["evidence"]["could_show"]


def test_shadow_siblings_are_no_traffic(run: CliRunner, engine: Engine) -> None:
    """Counted by themselves; what a scorer says of them is no judgement of what users saw."""
    before = json.loads(run.invoke(app, ["status", "--json"]).stdout)["policies"]["default"]
    with engine.begin() as connection:
        call = a_call(temperature=0.0)
        record_calls(connection, [call])
        ids = {"id": call.attribution.trajectory_id}
        connection.execute(text("UPDATE trajectories SET is_shadow = true WHERE id = :id"), ids)
        connection.execute(text("UPDATE exchanges SET is_shadow = true WHERE trajectory_id = :id"), ids)
        post_reward(connection, "default", RewardPost(str(ids["id"]), value=1.0, source="scorer"))
    after = json.loads(run.invoke(app, ["status", "--json"]).stdout)["policies"]["default"]
    assert (before["num_shadow"], after["num_shadow"]) == (0, 1)
    for name in (
        "num_captured",
        "num_trainable",
        "untrainable",
        "greedy_share",
        "events",
        "num_scored",
        "evidence",
    ):
        assert after[name] == before[name], name
    assert "1 shadow siblings beside them" in run.invoke(app, ["status"]).stdout


def test_what_is_missing_until_the_next_step(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        worker_started(connection, policy="default", base_model="base", owner="w", settings=SETTINGS)
    signal = json.loads(run.invoke(app, ["status", "--json"]).stdout)["policies"]["default"]
    assert (signal["next_step"]["num_ready"], signal["next_step"]["num_groups_needed"]) == (1, 7)
    assert signal["next_step"]["due_at"] is not None
    shown = run.invoke(app, ["status"]).stdout
    assert "1 groups are ready; 7 more groups must be ready, or it is" in shown


def test_status_says_why_no_step_begins(run: CliRunner, engine: Engine) -> None:
    """learned.fill: one group of four choices, twelve tokens, is ready; version 1 is live."""
    told = SETTINGS | {"step_groups": 1, "step_min_tokens": 2048, "train_hours": "00:00-24:00"}
    with engine.begin() as connection:
        worker_started(connection, policy="default", base_model="base", owner="w", settings=told)
        pause(connection, [learner.id for learner in find_learners(connection)], "The rewards look odd.")
    missing = json.loads(run.invoke(app, ["status", "--json"]).stdout)["policies"]["default"]["next_step"]
    assert (missing["waits_for"], missing["num_tokens"]) == (["tokens", "resumption"], 12)
    shown = run.invoke(app, ["status"]).stdout
    assert "2036 more tokens are needed (SLIPSTREAM_STEP_MIN_TOKENS) and it is paused since" in shown
    assert "(The rewards look odd.): `slipstream resume`" in shown


def test_a_step_by_hand_is_told_of_before_what_is_missing(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        worker_started(connection, policy="default", base_model="base", owner="w", settings=SETTINGS)
        ask_step(connection, find_learners(connection)[0].id, StepKind.GRPO, {})
    assert "1 asked for by hand: the next tick begins one" in run.invoke(app, ["status"]).stdout


def test_the_words_name_the_remedies(run: CliRunner, engine: Engine) -> None:
    add_odd_traffic(engine)
    shown = run.invoke(app, ["status", "--effect", "0.5"]).stdout
    assert "SLIPSTREAM_EXPLORE_SHARE" in shown
    assert "20% of all calls are greedy" in shown
    assert "3 of metric stars do not count: other_metric" in shown
    assert "no worker was ever started" in shown
    assert "needed in each of two versions" in shown


def test_early_judgements_are_shown_by_project(run: CliRunner, engine: Engine) -> None:
    """What was taken back, or said again, by the same wrong id waits no more."""
    call = n_call(2)
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(call.call_id), value=1.0))
        record_calls(connection, [call])
        for target, value in (("nobody", 1.0), ("nobody", 0.5), ("no one", 1.0)):
            post_reward(connection, "default", RewardPost(target, value=value))
        connection.execute(
            text("UPDATE reward_events SET created_at = now() - interval '3 hours' WHERE target = 'no one'")
        )
    found = json.loads(run.invoke(app, ["status", "--json"]).stdout)["early"]["default"]
    assert (found["num_events"], found["num_without_choice"]) == (3, 1)
    shown = run.invoke(app, ["status"]).stdout
    assert "early judgements of project default: 3, the oldest since 3.0 hours" in shown
    assert "2: unknown ids, or another project's" in shown
    assert "1 of calls with several choices wait for a choice" in shown


def test_what_is_older_than_the_period_is_not_counted(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        record_calls(connection, [a_call(call_id=later(-40 * 86_400))])
    for days, number in ((30, 12), (60, 13)):
        found = json.loads(run.invoke(app, ["status", "--json", "--days", str(days)]).stdout)
        assert found["policies"]["default"]["num_captured"] == number
    assert run.invoke(app, ["status", "--days", "0"]).exit_code == 2
