"""A step of dpo on real Postgres: which comparisons are pairs, what is left out and why, and that it is learned."""

from typing import Any

import pytest

from ledger.rewards.comparisons import retract_comparison
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepKind, StepState
from tests.trainer.imitation.given import answered, ask, compare, logprob, metrics_of_step, taught, whose
from tests.trainer.test_erased import erase_trajectories_of
from tests.trainer.traffic import add_group, call, one, rows
from trainer.checkpoint import read_parent
from trainer.step import tick


def dpo(trainer, **arguments: Any) -> Any:
    ask(trainer.engine, StepKind.DPO, **arguments)
    return tick(trainer)


def compared(engine, seed: int = 1, **changes: Any) -> Any:
    """A call of two choices of which the first is better."""
    made = answered(engine, seed, 2, **changes)
    result = compare(
        engine,
        RewardPost(str(made.call_id), choice=0),
        RewardPost(str(made.call_id), choice=1),
        project=made.project,
    )
    return made, result


def test_the_preferred_answer_becomes_likelier_than_the_other(engine, make_trainer) -> None:
    trainer = make_trainer(dpo_learning_rate=3e-3, dpo_epochs=4)
    made, result = compared(engine)
    step = dpo(trainer)
    assert (step.state, step.kind, step.version) == (StepState.PUBLISHED, StepKind.DPO, 1)
    gained = [
        logprob(trainer, 1, list(made.prompt_ids), choice.completion_ids)
        - logprob(trainer, 0, list(made.prompt_ids), choice.completion_ids)
        for choice in made.choices
    ]
    assert gained[0] > gained[1] + 0.5
    metrics = metrics_of_step(engine)
    assert metrics["margin"] == pytest.approx(gained[0] - gained[1], abs=1e-3)
    assert (metrics["accuracy_before"], metrics["accuracy"], metrics["num_pairs"]) == (0.0, 1.0, 1)
    assert metrics["loss"] < metrics["loss_before"] == pytest.approx(0.6931472)
    assert rows(engine, "SELECT reward, advantage, reward_event_ids FROM step_samples ORDER BY exchange_id") == [
        (1.0, None, [result.preferred.event_id]), (0.0, None, [result.other.event_id])
    ]  # fmt: skip
    assert one(engine, "SELECT state FROM groups") == "open"  # rewards may still teach it


def test_one_answer_may_stand_in_several_pairs(engine, make_trainer) -> None:
    """A > B, B > C: B is pulled both ways, and computed once."""
    trainer = make_trainer()
    made = answered(engine, 1, 3)
    target = str(made.call_id)
    for better in (0, 1):
        compare(engine, RewardPost(target, choice=better), RewardPost(target, choice=better + 1))
    assert dpo(trainer).state is StepState.PUBLISHED
    assert metrics_of_step(engine)["num_pairs"] == 2
    assert [tuple(row) for row in rows(engine, "SELECT reward, cardinality(reward_event_ids) FROM step_samples ORDER BY 1 DESC")] == [
        (1.0, 1), (0.5, 2), (0.0, 1)
    ]  # fmt: skip


def test_trajectories_are_compared_by_all_of_their_answers(engine, make_trainer) -> None:
    trainer = make_trainer()
    first = call(1, 1)
    for name, seed in (("a", 2), ("b", 3)):
        answered(engine, seed, attribution=whose(name), prompt_ids=first.prompt_ids)
        answered(engine, seed + 10, attribution=whose(name), prompt_ids=[1, 2, 3, seed])
    compare(engine, RewardPost("a"), RewardPost("b"))
    assert dpo(trainer).state is StepState.PUBLISHED
    assert rows(engine, "SELECT reward, count(*) FROM step_samples GROUP BY 1 ORDER BY 1") == [
        (0.0, 2),
        (1.0, 2),
    ]


def test_what_is_no_pair_is_left_out_with_its_reason(engine, make_trainer) -> None:
    """I10: of comparisons, since each has two sides."""
    trainer = make_trainer(sample_max_tokens=30)
    compared(engine, 1)
    one_call, another = answered(engine, 2), answered(engine, 3)
    compare(engine, RewardPost(str(one_call.call_id)), RewardPost(str(another.call_id)))
    compare(engine, RewardPost(str(one_call.call_id)), RewardPost("never seen"))
    _, retracted = compared(engine, 4)
    with engine.begin() as connection:
        retract_comparison(connection, "default", retracted.comparison_id, None)
    same = call(5, 1)
    again = [answered(engine, 5, prompt_ids=same.prompt_ids, choices=same.choices) for _ in range(2)]
    compare(engine, *(RewardPost(str(each.call_id)) for each in again))
    compare(engine, RewardPost(str(taught(engine, "how?", "so.").call_id)), RewardPost(str(another.call_id)))
    compared(engine, 6, prompt_ids=[1, *range(2, 40)])
    gone, _ = compared(engine, 7)
    erase_trajectories_of(engine, [gone.call_id])
    assert dpo(trainer).state is StepState.PUBLISHED
    metrics = metrics_of_step(engine)
    assert metrics["left_out"] == {
        "early": 1, "erased": 1, "external_model": 1, "prompts_differ": 1, "retracted": 1, "same_answer": 1,
        "too_long": 1,
    }  # fmt: skip
    assert (metrics["num_found"], metrics["num_pairs"]) == (8, 1)


def test_without_a_pair_no_version_is_made_and_whoever_asked_is_told(engine, make_trainer) -> None:
    trainer = make_trainer()
    assert dpo(trainer).state is StepState.SKIPPED
    one_call, another = answered(engine, 2), answered(engine, 3)
    compare(engine, RewardPost(str(one_call.call_id)), RewardPost(str(another.call_id)))
    assert dpo(trainer).state is StepState.SKIPPED
    reasons = [row.reason for row in rows(engine, "SELECT reason FROM step_requests ORDER BY id")]
    assert reasons[0].startswith("There is no comparison of this policy")
    assert reasons[1].startswith(
        "None of 1 comparisons is a pair (1 prompts_differ). What would help: compare answers"
    )


def test_another_projects_comparisons_are_never_learned_from(engine, make_trainer) -> None:
    trainer = make_trainer()
    compared(engine, 1, project="acme")
    assert dpo(trainer).state is StepState.SKIPPED
    assert metrics_of_step(engine)["num_found"] == 0
    ask(engine, StepKind.DPO, "acme")
    assert tick(trainer).state is StepState.PUBLISHED


def test_a_side_that_is_erased_between_build_and_update_takes_its_pair_along(
    engine, make_trainer, monkeypatch
) -> None:
    from trainer import step as story

    trainer = make_trainer()
    made, _ = compared(engine, 1)
    compared(engine, 2)
    built = story.build_samples

    def build_then_erase(run) -> None:
        built(run)
        erase_trajectories_of(engine, [made.call_id])

    monkeypatch.setattr(story, "build_samples", build_then_erase)
    assert dpo(trainer).state is StepState.PUBLISHED
    assert rows(engine, "SELECT reason, count(*) FROM step_samples GROUP BY 1 ORDER BY 1") == [
        ("erased", 2), (None, 2)
    ]  # fmt: skip


def test_a_comparison_turned_round_after_it_was_built_changes_the_next_step_only(
    engine, make_trainer, monkeypatch
) -> None:
    """I9: the events that were frozen say which side was preferred."""
    from trainer import step as story

    trainer = make_trainer(dpo_learning_rate=3e-3)
    made, _ = compared(engine, 1)
    target, built = str(made.call_id), story.build_samples

    def build_then_turn_round(run) -> None:
        built(run)
        compare(engine, RewardPost(target, choice=1), RewardPost(target, choice=0))

    monkeypatch.setattr(story, "build_samples", build_then_turn_round)
    assert dpo(trainer).state is StepState.PUBLISHED
    assert metrics_of_step(engine)["margin"] > 0
    margin = metrics_of_step(engine)["margin"]
    monkeypatch.setattr(story, "build_samples", built)
    assert dpo(trainer).state is StepState.PUBLISHED
    assert metrics_of_step(engine)["margin_before"] == pytest.approx(-margin, abs=1e-4)


def test_moments_of_rewards_pass_a_step_of_dpo_unchanged(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    tick(trainer)
    compared(engine, 2)
    assert dpo(trainer).version == 2
    before, after = (read_parent(trainer.settings, "default", version) for version in (1, 2))
    assert after.optimizer_step == before.optimizer_step == 1
    assert all((after.moments[name] == before.moments[name]).all() for name in before.moments)
