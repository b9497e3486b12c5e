"""Every rung of the ladder on real Postgres: what a step compares each reward with, and what it leaves behind."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, text

from ledger.groups.routes import route_named
from ledger.identifiers import choice_id
from ledger.recording import record_calls
from ledger.records import Attribution, CallRecord
from ledger.rewards.comparisons import Comparison, post_comparison
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import IdentifiedBy, StepState
from tests.trainer.traffic import add_group, call, one, rows
from trainer.step import tick

NOW = {"group_grace_seconds": 0.0}
SAMPLES = "SELECT reward, baseline, baseline_kind, num_baseline_samples, advantage, reason FROM step_samples"
RUNNING = "SELECT mean, variance, num_samples FROM route_baselines"


def add(engine: Engine, *calls: CallRecord, rewards: list[float | None]) -> None:
    """Calls of one choice, each with its reward."""
    with engine.begin() as connection:
        record_calls(connection, list(calls))
        for each, value in zip(calls, rewards, strict=True):
            if value is not None:
                post_reward(connection, "default", RewardPost(str(each.call_id), value=value))


def lone(first: int, rewards: list[float], **changes: Any) -> list[CallRecord]:
    """As many calls that nobody asked again."""
    return [call(first + k, 1, **changes) for k, _ in enumerate(rewards)]


def add_lone(engine: Engine, first: int, rewards: list[float], **changes: Any) -> None:
    add(engine, *lone(first, rewards, **changes), rewards=list(rewards))


def spoken(record: CallRecord, system: str) -> CallRecord:
    return replace(record, messages=[{"role": "system", "content": system}, *(record.messages or [])])


def in_group(record: CallRecord, name: str, **changes: Any) -> CallRecord:
    who = Attribution(record.call_id, IdentifiedBy.NEW, group_key=name)
    return replace(record, attribution=replace(who, **changes))


def test_a_lone_thumb_up_teaches(engine, make_trainer) -> None:
    """Against four earlier ones of its route: 1, 0, 0, 0 -> 0.25."""
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0)
    add_lone(engine, 10, [1.0])
    assert tick(trainer).state is StepState.SKIPPED  # nothing to compare it with: it seeds the baseline
    assert rows(engine, "SELECT reason, count(*) FROM step_samples GROUP BY 1") == [("no_baseline", 1)]
    assert rows(engine, RUNNING) == [(1.0, 0.0, 1)]
    for seed in (11, 12, 13):
        add_lone(engine, seed, [0.0])
        assert tick(trainer).state is StepState.SKIPPED
    assert rows(engine, RUNNING) == [(0.25, pytest.approx(0.1875), 4)]
    add_lone(engine, 20, [1.0])
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, f"{SAMPLES} WHERE is_used") == [(1.0, 0.25, "running", 4, 0.75, None)]
    assert rows(engine, RUNNING) == [(pytest.approx(0.4), pytest.approx(0.24), 5)]
    assert rows(engine, "SELECT state, reason FROM groups ORDER BY id DESC LIMIT 1") == [("trained", None)]


def test_a_lone_thumb_up_without_a_baseline_says_so_and_what_would_help(engine, make_trainer) -> None:
    add_after = make_trainer(**NOW, group_deadline_seconds=0.0)
    add_lone(engine, 10, [1.0])
    tick(add_after)
    assert "SLIPSTREAM_BASELINE_MIN_SAMPLES" in one(engine, "SELECT reason FROM training_steps")
    assert rows(engine, "SELECT state, reason FROM groups") == [("skipped", "no_baseline")]


def test_the_first_lone_rewards_are_compared_with_each_other(engine, make_trainer) -> None:
    """Five of them: each with the four others, which is the minimum."""
    trainer = make_trainer(**NOW, step_groups=5)
    add_lone(engine, 10, [1.0, 0.0, 0.0, 0.0, 1.0])
    assert tick(trainer).state is StepState.PUBLISHED
    assert set(rows(engine, SAMPLES)) == {
        (1.0, 0.25, "running", 4, 0.75, None),
        (0.0, 0.5, "running", 4, -0.5, None),
    }
    assert rows(engine, RUNNING) == [(pytest.approx(0.4), pytest.approx(0.24), 5)]


def test_constant_lone_rewards_teach_nothing(engine, make_trainer) -> None:
    """B110 for traffic without groups: everybody is happy, and the weights stay as they are."""
    trainer = make_trainer(**NOW, step_groups=5)
    for first in (10, 20):
        add_lone(engine, first, [0.7] * 5)
        assert tick(trainer).state is StepState.SKIPPED
    assert set(rows(engine, SAMPLES)) == {
        (0.7, 0.7, "running", number, 0.0, "no_variance") for number in (4, 9)
    }
    assert rows(engine, RUNNING) == [(0.7, 0.0, 10)]
    assert one(engine, "SELECT live_version FROM policies") == 0


def test_group_members_move_the_baseline_of_their_route_too(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    add_group(engine, 1, [1.0, 0.0, 0.0, 0.0])
    tick(trainer)
    assert rows(engine, RUNNING) == [(0.25, pytest.approx(0.1875), 4)]
    add_lone(engine, 20, [1.0], version=1)
    tick(trainer)
    assert rows(engine, f"{SAMPLES} WHERE baseline_kind = 'running'") == [
        (1.0, 0.25, "running", 4, 0.75, None)
    ]


def test_routes_never_share_a_baseline(engine, make_trainer) -> None:
    """Neither inside a group nor on the running rung."""
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0, step_groups=7)
    for first, system, rewards in ((10, "poet", [1.0, 1.0, 0.0, 0.0, 1.0]), (20, "clerk", [0.0] * 5)):
        add(engine, *(spoken(each, system) for each in lone(first, rewards)), rewards=list(rewards))
    mixed = [
        in_group(spoken(call(30 + k, 1), system), "g")
        for k, system in enumerate(["poet", "poet", "clerk", "clerk"])
    ]
    add(engine, *mixed, rewards=[1.0, 0.0, 0.5, 0.5])
    tick(trainer)
    of_group = rows(
        engine,
        "SELECT baseline, baseline_kind, reason FROM step_samples WHERE baseline_kind = 'explicit_group' ORDER BY reward",
    )
    assert of_group == [(0.5, "explicit_group", reason) for reason in (None, *["no_variance"] * 2, None)]
    found = dict(
        rows(engine, "SELECT reason, count(*) FROM step_samples WHERE baseline_kind = 'running' GROUP BY 1")
    )
    assert found == {None: 5, "no_variance": 5}
    means = rows(engine, "SELECT mean, num_samples FROM route_baselines ORDER BY 1")
    assert means == [(pytest.approx(1 / 7), 7), (pytest.approx(4 / 7), 7)]


def test_the_callers_own_name_is_a_route(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW, step_groups=5)
    records = [
        replace(spoken(each, f"User {k} asks"), attribution=replace(each.attribution, route="support"))
        for k, each in enumerate(lone(10, [0.0] * 5))
    ]
    add(engine, *records, rewards=[1.0, 0.0, 0.0, 0.0, 1.0])
    assert tick(trainer).state is StepState.PUBLISHED
    route = route_named("support")
    assert rows(engine, "SELECT route, num_samples FROM route_baselines") == [(route, 5)]
    assert set(rows(engine, "SELECT route FROM trajectories UNION ALL SELECT route FROM groups")) == {
        (route,)
    }


def test_a_late_member_is_compared_with_what_its_task_was_trained_with(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    first = [in_group(call(k, 1), "task") for k in range(3)]
    add(engine, *first, rewards=[1.0, 0.0, 0.5])
    tick(trainer)
    assert rows(engine, "SELECT reward_mean, num_scored FROM groups") == [(0.5, 3)]
    add(engine, in_group(call(9, 1, version=1), "task"), rewards=[1.0])
    assert tick(trainer).state is StepState.PUBLISHED
    late = rows(engine, f"{SAMPLES} ORDER BY exchange_id DESC LIMIT 1")
    assert late == [(1.0, 0.5, "stored_group", 3, 0.5, None)]


def test_the_running_rung_can_be_switched_off(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW, group_deadline_seconds=0.0, step_groups=5, running_baseline=False)
    add_lone(engine, 10, [1.0, 0.0, 0.0, 0.0, 1.0])
    assert tick(trainer).state is StepState.SKIPPED
    assert set(rows(engine, "SELECT reason, baseline FROM step_samples")) == {("group_incomplete", None)}


def test_an_exchange_with_its_own_reward_has_its_own_advantage(engine, make_trainer) -> None:
    """Turn 1 was praised, turn 2 blamed; nobody spoke of turn 3, nor of the whole."""
    trainer = make_trainer(**NOW)
    name = Attribution(call(1, 1).call_id, IdentifiedBy.HEADER, external_id="talk", group_key="g")
    turns = [call(k, 1, attribution=name) for k in range(3)]
    with engine.begin() as connection:
        record_calls(connection, turns)
        for turn, value in zip(turns, (1.0, -1.0), strict=False):
            post_reward(connection, "default", RewardPost(str(turn.call_id), value=value))
    add(engine, in_group(call(9, 1), "g"), rewards=[0.5])
    assert tick(trainer).state is StepState.PUBLISHED
    query = "SELECT exchange_id, reward, trajectory_reward, baseline, advantage, reason FROM step_samples"
    found = {row[0]: tuple(row)[1:] for row in rows(engine, query)}
    # members 0 (the talk's mean) and 0.5: baseline 0.25
    assert found[choice_id(turns[0].call_id, 0)] == (1.0, 0.0, 0.25, 0.75, None)
    assert found[choice_id(turns[1].call_id, 0)] == (-1.0, 0.0, 0.25, -1.25, None)
    assert found[choice_id(turns[2].call_id, 0)] == (None, 0.0, 0.25, None, "unscored")
    events = one(engine, "SELECT array_agg(e) FROM step_samples, unnest(reward_event_ids) AS e")
    assert set(events) == {row.id for row in rows(engine, "SELECT id FROM reward_events")}


def test_answers_that_were_cut_off_can_be_left_out(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW, train_truncated=False)
    records = [in_group(call(k, 1), "g") for k in range(3)]
    cut = replace(records[0], choices=[replace(records[0].choices[0], finish_reason="length")])
    add(engine, cut, *records[1:], rewards=[-1.0, 1.0, 0.0])
    tick(trainer)
    assert set(rows(engine, "SELECT reward, baseline, reason FROM step_samples")) == {
        (-1.0, None, "truncated"), (1.0, 0.5, None), (0.0, 0.5, None)
    }  # fmt: skip


def test_a_step_records_by_which_rule_rewards_were_made(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO metrics (policy_id, name, smallest, largest) SELECT id, 'tone', 0, 5 FROM policies"
            )
        )
    add_group(engine, 1, [1.0, 0.0])
    tick(trainer)
    settings = one(engine, "SELECT settings FROM training_steps")
    assert settings["rewards"] == {
        "combination": "mean", "smallest": -1, "largest": 1,
        "metrics": [{"name": "tone", "smallest": 0, "largest": 5, "direction": "higher", "weight": 1}],
    }  # fmt: skip
    assert (settings["baseline_min_samples"], settings["baseline_window"]) == (4, 256)


def test_two_lone_calls_that_were_compared_teach_as_a_group(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    calls = lone(10, [1.0, 0.0])
    add(engine, *calls, rewards=[None, None])
    better, worse = (RewardPost(str(each.call_id)) for each in calls)
    with engine.begin() as connection:
        post_comparison(connection, "default", Comparison(better, worse))
    assert tick(trainer).state is StepState.PUBLISHED
    assert set(rows(engine, SAMPLES)) == {
        (1.0, 0.0, "comparison_group", 2, 1.0, None),
        (-1.0, 0.0, "comparison_group", 2, -1.0, None),
    }
