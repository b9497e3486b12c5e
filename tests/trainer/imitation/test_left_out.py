"""What a step of sft does not imitate, and what it says about it (I10)."""

import shutil
import time

import pytest

from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepKind, StepState
from tests.trainer.imitation.given import (
    answered,
    ask,
    demonstrate,
    metrics_of_step,
    reason_of_step,
    sft,
    taught,
    whose,
)
from tests.trainer.test_erased import erase_trajectories_of
from tests.trainer.traffic import add_group, begin_policy, one, rows
from trainer.step import tick

END, ASSISTANT, USER = 2, 5, 4
SETTINGS = {"sft_learning_rate": 1e-2, "sft_epochs": 4}
SAMPLES = "SELECT exchange_id, advantage, is_used, reason, num_completion_tokens, group_id, reward_event_ids FROM step_samples ORDER BY 1"


def test_what_cannot_be_imitated_is_left_out_with_its_reason(engine, make_trainer) -> None:
    """I10: counted in the step, and a row for each."""
    trainer = make_trainer(sample_max_tokens=60)
    demonstrate(engine, answered(engine, 1).call_id, {"role": "user", "content": "a question"})
    demonstrate(engine, answered(engine, 2).call_id, [{"content": "a"}, {"content": "b"}])
    demonstrate(engine, answered(engine, 3).call_id, "x" * 80)
    demonstrate(engine, answered(engine, 4).call_id, {"role": "assistant", "content": [{"type": "audio"}]})
    for seed in (5, 6):
        answered(engine, seed, attribution=whose("talk"))
    demonstrate(engine, "talk", "of which reply?")
    side = whose("side")
    demonstrate(engine, answered(engine, 7, attribution=side).call_id, "y")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE exchanges SET turn_type = 'side' WHERE trajectory_id IN"
            " (SELECT trajectory_id FROM trajectory_names WHERE name = 'side')"
        )
    good = answered(engine, 8)
    demonstrate(engine, good.call_id, [{"role": "assistant", "content": "yes."}])
    assert sft(trainer, "demonstrations").state is StepState.PUBLISHED
    assert metrics_of_step(engine)["left_out"] == {
        "not_an_answer": 2, "opted_out": 1, "several_replies": 1, "template_refused": 1, "too_long": 1
    }  # fmt: skip
    assert rows(engine, "SELECT reason, count(*) FROM step_samples WHERE NOT is_used GROUP BY 1 ORDER BY 1") == [
        ("missing_token_ids", 4), ("opted_out", 1), ("too_long", 1)
    ]  # fmt: skip
    assert rows(engine, "SELECT exchange_id FROM step_samples WHERE is_used") == [(good.call_id,)]


def test_a_teachers_half_answer_and_one_that_was_not_to_be_stored_are_left_out(engine, make_trainer) -> None:
    trainer = make_trainer()
    taught(engine, "how?", "so.", request={"store": False})
    taught(engine, "how?", None)
    taught(engine, "how?", "so.", endpoint="/v1/messages")
    made = taught(engine, "how?", "so")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE exchanges SET finish_reason = 'length' WHERE id = '{made.call_id}'"
        )
    step = sft(trainer, "teacher")
    assert step.state is StepState.SKIPPED
    assert metrics_of_step(engine)["left_out"] == {
        "not_an_answer": 1, "opted_out": 1, "other_endpoint": 1, "truncated": 1
    }  # fmt: skip
    assert reason_of_step(engine).startswith("None of 4 answers can be imitated (")


@pytest.mark.parametrize(
    ("source", "says"),
    [("demonstrations", "post corrected"), ("teacher", "slipstream import"), ("best", "lower")],
)
def test_with_nothing_to_imitate_no_version_is_made_and_whoever_asked_is_told(
    engine, make_trainer, source, says
) -> None:
    trainer = make_trainer()
    answered(engine)
    step = sft(trainer, source)
    assert step.state is StepState.SKIPPED
    assert says in reason_of_step(engine)
    assert rows(engine, "SELECT state, reason FROM step_requests") == [("done", reason_of_step(engine))]
    assert one(engine, "SELECT live_version FROM policies") == 0


def test_a_wish_that_makes_no_sense_is_refused(engine, make_trainer) -> None:
    trainer = make_trainer()
    assert sft(trainer, "dreams") is None
    assert rows(engine, "SELECT state, reason FROM step_requests") == [
        ("refused", "'from' must be one of demonstrations, teacher, best.")
    ]
    assert one(engine, "SELECT count(*) FROM training_steps") == 0


@pytest.mark.parametrize("source", ["demonstrations", "teacher", "best"])
def test_another_projects_rows_are_never_imitated(engine, make_trainer, source) -> None:
    trainer = make_trainer()
    begin_policy(engine, trainer.settings.base_model)
    taught(engine, "how?", "so.", project="acme")
    theirs = answered(engine, 1, project="acme")
    demonstrate(engine, theirs.call_id, "yes.", project="acme")
    with engine.begin() as connection:
        post_reward(connection, "acme", RewardPost(str(theirs.call_id), value=1.0))
    assert sft(trainer, source).state is StepState.SKIPPED
    assert one(engine, "SELECT count(*) FROM step_samples") == 0
    ask(engine, StepKind.SFT, "acme", **{"from": source})
    assert tick(trainer).state is StepState.PUBLISHED


@pytest.mark.parametrize("source", ["demonstrations", "teacher", "best"])
def test_what_is_erased_before_the_step_is_left_out(engine, make_trainer, source) -> None:
    trainer = make_trainer()
    made = taught(engine, "how?", "so.") if source == "teacher" else answered(engine)
    demonstrate(engine, made.call_id, "yes.")
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(made.call_id), value=1.0))
    erase_trajectories_of(engine, [made.call_id])
    assert sft(trainer, source).state is StepState.SKIPPED
    assert metrics_of_step(engine)["left_out"] == {"erased": 1}
    assert rows(engine, "SELECT reason, is_used FROM step_samples") == [("erased", False)]


@pytest.mark.parametrize("num_erased", [1, 2])
def test_what_is_erased_between_build_and_update_is_not_imitated(
    engine, make_trainer, monkeypatch, num_erased
) -> None:
    from trainer import step as story

    trainer = make_trainer()
    made = [answered(engine, seed) for seed in (1, 2)]
    for each in made:
        demonstrate(engine, each.call_id, "yes.")
    built = story.build_samples

    def build_then_erase(run) -> None:
        built(run)
        erase_trajectories_of(engine, [each.call_id for each in made[:num_erased]])

    monkeypatch.setattr(story, "build_samples", build_then_erase)
    step = sft(trainer, "demonstrations")
    assert step.state is (StepState.PUBLISHED if num_erased == 1 else StepState.SKIPPED)
    erased = rows(engine, "SELECT exchange_id FROM step_samples WHERE reason = 'erased' AND NOT is_used")
    assert {row.exchange_id for row in erased} == {each.call_id for each in made[:num_erased]}


def test_only_what_came_since_then_is_imitated_and_no_more_than_the_limit(engine, make_trainer) -> None:
    trainer = make_trainer(sft_max_samples=1)
    made = [taught(engine, "how?", "so.") for _ in range(3)]
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE exchanges SET started_at = '2020-01-01' WHERE id = '{made[0].call_id}'"
        )
    sft(trainer, "teacher", since="2021-01-01")
    assert rows(engine, "SELECT exchange_id FROM step_samples") == [(made[2].call_id,)]
    assert metrics_of_step(engine)["left_out"] == {"over_limit": 1}


def test_a_base_without_a_tokenizer_ends_the_step_and_holds_back_no_other(
    engine, make_trainer, tiny_path, tmp_path
) -> None:
    """A step that waited for one would be the policy's only step for ever, and whoever asked could not withdraw it."""
    names = ("config.json", "model.safetensors")
    base = tmp_path / "weights-only"
    base.mkdir()
    for name in names:
        shutil.copy(tiny_path / name, base)
    trainer = make_trainer(base_model=str(base), retry_seconds=0.001, step_groups=1, step_min_tokens=0)
    demonstrate(engine, answered(engine, 1).call_id, "yes.")
    assert sft(trainer, "demonstrations").state is StepState.CLAIMED
    time.sleep(0.01)
    tick(trainer)
    assert rows(engine, "SELECT state, attempt FROM training_steps") == [("failed", 2)]
    [(state, reason)] = rows(engine, "SELECT state, reason FROM step_requests")
    assert state == "done"
    assert "tokenizer" in reason
    add_group(engine, 2, [1.0, 0.0])
    step = tick(trainer)
    assert step is not None
    assert (step.kind, step.state) == (StepKind.GRPO, StepState.PUBLISHED)
