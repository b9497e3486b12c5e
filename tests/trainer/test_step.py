"""The step's story on real Postgres: what is trained, with which numbers, and what the ledger says about it."""

import json
from dataclasses import replace

import pytest

from ledger.vocabulary import StepState
from tests.trainer.traffic import add_group, call, one, rows
from trainer.step import tick

NEW_ADAPTER = {"adapter_config.json", "adapter_model.safetensors"}


def test_a_tick_turns_scored_groups_into_a_live_version(engine, make_trainer, replica) -> None:
    trainer = make_trainer(step_groups=2)
    used = add_group(engine, 1, [1.0, 0.0, 0.0, 1.0]) + add_group(engine, 2, [0.5, -0.5])
    step = tick(trainer)
    assert (step.state, step.version, step.parent_version) == (StepState.PUBLISHED, 1, 0)
    assert one(engine, "SELECT live_version FROM policies") == 1
    assert rows(engine, "SELECT state, count(*) FROM groups GROUP BY 1") == [("trained", 2)]
    assert rows(engine, "SELECT version, state, adapter_path FROM policy_versions ORDER BY 1") == [
        (0, "base", None),
        (1, "published", "default@1"),
    ]
    adapter = trainer.settings.adapters / "default@1"
    assert {path.name for path in adapter.iterdir()} == NEW_ADAPTER
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in adapter.iterdir())
    assert replica.paths()[:2] == ["/v1/load_lora_adapter", "/v1/completions"]
    samples = rows(engine, "SELECT exchange_id, reward, baseline, advantage, baseline_kind FROM step_samples")
    assert {row.exchange_id for row in samples} == set(used)
    assert {(row.reward, row.baseline, row.advantage) for row in samples} == {
        (1.0, 0.5, 0.5), (0.0, 0.5, -0.5), (0.5, 0.0, 0.5), (-0.5, 0.0, -0.5)
    }  # fmt: skip
    assert {row.baseline_kind for row in samples} == {"choices_group"}


def test_a_step_says_what_it_did_in_its_metrics(engine, make_trainer) -> None:
    """B113: reward, gradient norm and version are there, not the loss alone."""
    trainer = make_trainer(group_deadline_seconds=0.0)
    add_group(engine, 1, [1.0, 0.0, None])
    add_group(engine, 2, [0.5, 0.5])
    tick(trainer)
    metrics = one(engine, "SELECT metrics FROM training_steps")
    assert metrics["reward_mean"] == pytest.approx(0.5)
    assert metrics["num_groups_without_signal"] == 1
    assert set(metrics["tokens_dropped"]) == {"no_variance", "unscored"}
    for name in (
        "loss", "grad_norm", "ratio_mean", "ratio_max", "clipped_fraction", "masked_fraction", "entropy",
        "approximate_kl", "advantage_spread", "tokens_used", "peak_memory_mib", "seconds_build",
        "seconds_update", "seconds_save", "seconds_publish", "probe_difference",
    ):  # fmt: skip
        assert metrics[name] is not None, name
    assert metrics["grad_norm"] > 0


def test_i10_every_exchange_of_a_claimed_group_has_a_row_and_a_reason_if_it_was_not_used(
    engine, make_trainer
) -> None:
    """I10: nothing is dropped without a counted, queryable reason."""
    trainer = make_trainer(group_deadline_seconds=0.0, max_staleness=0, sample_max_tokens=40)
    add_group(engine, 1, [1.0, 0.0, None])
    add_group(engine, 2, [0.5, 0.5])
    add_group(engine, 3, [1.0, 0.0], temperature=0.0)
    add_group(engine, 4, [1.0, 0.0], prompt_ids=[5] * 60)
    add_group(engine, 5, [1.0, 0.0], version=1)
    tick(trainer)
    found = rows(engine, "SELECT reason, count(*) FROM step_samples GROUP BY 1 ORDER BY 1")
    assert dict(found) == {
        None: 2, "unscored": 1, "no_variance": 2, "too_long": 2, "too_stale": 2,
    }  # fmt: skip
    unexplained = """SELECT count(*) FROM exchanges AS e WHERE e.untrainable_reason IS NULL
        AND NOT EXISTS (SELECT FROM step_samples AS s WHERE s.exchange_id = e.id)"""
    assert one(engine, unexplained) == 0
    assert dict(rows(engine, "SELECT coalesce(reason, state), count(*) FROM groups GROUP BY 1")) == {
        "trained": 1, "no_variance": 1, "too_long": 1, "too_stale": 1,
    }  # fmt: skip
    assert one(engine, "SELECT advantage FROM step_samples WHERE reason = 'no_variance' LIMIT 1") == 0.0
    assert one(engine, "SELECT advantage FROM step_samples WHERE reason = 'unscored'") is None


def test_groups_without_variance_make_no_version_and_a_message_that_helps(engine, make_trainer) -> None:
    """B110: a step in which nothing can be learned is skipped and counted; the version does not move."""
    trainer = make_trainer(step_groups=2)
    add_group(engine, 1, [1.0, 1.0])
    add_group(engine, 2, [0.0, 0.0, 0.0])
    step = tick(trainer)
    assert step.state is StepState.SKIPPED
    assert one(engine, "SELECT live_version FROM policies") == 0
    assert rows(engine, "SELECT state, reason FROM groups") == [("skipped", "no_variance")] * 2
    assert "rewards must differ" in one(engine, "SELECT reason FROM training_steps")
    assert not trainer.settings.adapters.exists()
    add_group(engine, 3, [1.0, 0.0])
    add_group(engine, 4, [1.0, 0.0])
    assert tick(trainer).version == 1  # no gap: a skipped step has used up no number


def test_the_second_step_continues_from_the_first_with_its_optimizer(engine, make_trainer) -> None:
    trainer = make_trainer()
    for version in (1, 2):
        add_group(engine, version, [1.0, 0.0], version=version - 1)
        assert tick(trainer).version == version
    state = json.loads((trainer.settings.checkpoints_root / "default@2" / "state.json").read_text())
    assert (state["optimizer_step"], state["parent_version"]) == (2, 1)
    weights = [
        (trainer.settings.adapters / f"default@{n}" / "adapter_model.safetensors").read_bytes()
        for n in (1, 2)
    ]
    assert weights[0] != weights[1]


def test_groups_over_the_token_budget_stay_open_for_the_next_step(engine, make_trainer) -> None:
    trainer = make_trainer(step_max_tokens=20)
    for seed in range(3):
        add_group(engine, seed, [1.0, 0.0, 1.0])
    tick(trainer)
    states = dict(rows(engine, "SELECT state, count(*) FROM groups GROUP BY 1"))
    assert states == {"trained": 1, "open": 2}
    assert one(engine, "SELECT count(*) FROM groups WHERE state = 'open' AND step_id IS NOT NULL") == 0
    tick(trainer)
    tick(trainer)
    assert dict(rows(engine, "SELECT state, count(*) FROM groups GROUP BY 1")) == {"trained": 3}
    assert one(engine, "SELECT live_version FROM policies") == 3


def test_too_few_groups_wait_until_the_oldest_has_waited_long_enough(engine, make_trainer) -> None:
    trainer = make_trainer(step_groups=8, step_max_wait_seconds=3600.0)
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer) is None
    assert tick(make_trainer(step_groups=8, step_max_wait_seconds=0.001)).state is StepState.PUBLISHED


def test_turns_that_extend_each_other_are_learned_from_as_one_sample(engine, make_trainer) -> None:
    from ledger.recording import record_calls
    from ledger.records import Attribution
    from ledger.rewards.posting import post_reward
    from ledger.rewards.posts import RewardPost
    from ledger.vocabulary import IdentifiedBy

    trainer = make_trainer()
    with engine.begin() as connection:
        for name, reward in (("a", 1.0), ("b", 0.0)):
            first = call(ord(name), 1)
            who = Attribution(
                first.attribution.trajectory_id, IdentifiedBy.HEADER, external_id=name, group_key="g"
            )
            ids = [*first.prompt_ids, *first.choices[0].completion_ids, 7, 8]
            messages = [
                *first.messages,
                {"role": "assistant", "content": "x"},
                {"role": "user", "content": "y"},
            ]
            record_calls(connection, [call(ord(name), 1, attribution=who, messages=first.messages)])
            record_calls(connection, [call(9, 1, attribution=who, messages=messages, prompt_ids=ids)])
            post_reward(connection, "default", RewardPost(name, value=reward))
    trainer = make_trainer(group_grace_seconds=0.0)
    assert tick(trainer).state is StepState.PUBLISHED
    metrics = one(engine, "SELECT metrics FROM training_steps")
    assert metrics["num_used_exchanges"] == 4
    num_tokens = one(engine, "SELECT sum(cardinality(completion_ids)) FROM exchanges")
    assert metrics["num_trained_tokens"] == num_tokens
    assert set(dict(rows(engine, "SELECT baseline_kind, 1 FROM step_samples"))) == {"explicit_group"}


def test_a_turn_that_another_provider_answered_is_left_out_and_the_others_are_learned_from(
    engine, make_trainer
) -> None:
    """I10: it has a row with its reason, and no version that it could be stale against."""
    from ledger.recording import record_calls
    from ledger.records import Attribution
    from ledger.vocabulary import IdentifiedBy, Reason

    trainer = make_trainer(group_deadline_seconds=0.0)
    add_group(engine, 1, [1.0, 0.0])
    name = str(one(engine, "SELECT min(id::text) FROM trajectories"))
    who = Attribution(call(2, 1).call_id, IdentifiedBy.HEADER, external_id=name)
    teacher = call(2, 1, attribution=who, prompt_ids=None, untrainable_reason=Reason.EXTERNAL_MODEL)
    with engine.begin() as connection:
        record_calls(connection, [replace(teacher, version=None)])
    assert tick(trainer).state is StepState.PUBLISHED
    found = rows(engine, "SELECT reason, staleness, is_used FROM step_samples ORDER BY exchange_id")
    assert [tuple(row) for row in found] == [
        (None, 0, True),
        (None, 0, True),
        ("external_model", None, False),
    ]
    assert rows(engine, "SELECT num_exchanges, last_version FROM v1.trajectories ORDER BY id") == [
        (2, 0),
        (1, 0),
    ]


def test_a_step_says_which_rungs_taught_and_how_much_had_no_variance(engine, make_trainer) -> None:
    """B110: a run in which every group is degenerate does not look alive."""
    trainer = make_trainer(step_groups=4)
    add_group(engine, 1, [1.0, 0.0])
    for seed in (2, 3, 4):
        add_group(engine, seed, [0.5, 0.5])
    tick(trainer)
    metrics = one(engine, "SELECT metrics FROM training_steps")
    assert metrics["frac_groups_without_variance"] == 0.75
    assert metrics["num_groups_by_reason"] == {"no_variance": 3}
    assert metrics["num_exchanges_by_baseline"] == {"choices_group": 2}
