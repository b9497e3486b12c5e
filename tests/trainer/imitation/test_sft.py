"""A step of sft on real Postgres: what is imitated of each source, and that it is learned."""

import pytest

from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepKind, StepState
from tests.trainer.imitation.given import answered, demonstrate, logprob, metrics_of_step, sft, taught, whose
from tests.trainer.imitation.tokenizer import ids_of
from tests.trainer.test_ladder import NOW
from tests.trainer.test_late_rewards import GROUPS, reward, three
from tests.trainer.traffic import add_group, one, rows
from trainer.step import tick

END, ASSISTANT, USER = 2, 5, 4
SETTINGS = {"sft_learning_rate": 1e-2, "sft_epochs": 4}
SAMPLES = "SELECT exchange_id, advantage, is_used, reason, num_completion_tokens, group_id, reward_event_ids FROM step_samples ORDER BY 1"


def test_a_demonstration_becomes_likelier_behind_the_prompt_as_it_was_recorded(engine, make_trainer) -> None:
    """I3: the prompt's ids are the recorded ones; only the demonstrated text is tokenised."""
    trainer = make_trainer(**SETTINGS)
    bad = answered(engine)
    event_id = demonstrate(engine, bad.call_id, "yes.")
    step = sft(trainer, "demonstrations")
    assert (step.state, step.kind, step.version) == (StepState.PUBLISHED, StepKind.SFT, 1)
    wanted = [*ids_of("yes."), END]
    before, after = (logprob(trainer, version, list(bad.prompt_ids), wanted) for version in (0, 1))
    assert after > before + 1.0
    assert [tuple(row) for row in rows(engine, SAMPLES)] == [
        (bad.call_id, 1.0, True, None, 5, rows(engine, "SELECT group_id FROM trajectories")[0][0], [event_id])
    ]
    metrics = metrics_of_step(engine)
    assert metrics["loss_last"] < metrics["loss_first"]
    assert (metrics["num_optimizer_steps"], metrics["num_trained_tokens"], metrics["left_out"]) == (4, 5, {})
    assert one(engine, "SELECT live_version FROM policies") == 1
    assert rows(engine, "SELECT state, reason FROM step_requests") == [("done", None)]


def test_a_teachers_answer_is_imitated_by_the_policys_own_template(engine, make_trainer) -> None:
    trainer = make_trainer(**SETTINGS)
    taught(engine, "how?", "so.")
    assert sft(trainer, "teacher").state is StepState.PUBLISHED
    prompt, wanted = [USER, *ids_of("how?"), END, *ids_of("\n"), ASSISTANT], [*ids_of("so."), END]
    before, after = (logprob(trainer, version, prompt, wanted) for version in (0, 1))
    assert after > before + 1.0
    assert rows(engine, "SELECT is_used, staleness, num_completion_tokens FROM step_samples") == [
        (True, None, 4)
    ]


def test_of_the_best_the_recorded_tokens_are_imitated(engine, make_trainer) -> None:
    trainer = make_trainer(**SETTINGS)
    ids = add_group(engine, 1, [1.0, 0.0, 0.25, 0.5])
    step = sft(trainer, "best", top=0.3)  # of four: two, rounded up
    assert step.state is StepState.PUBLISHED
    assert rows(engine, "SELECT exchange_id, reward FROM step_samples ORDER BY 2 DESC") == [
        (ids[0], 1.0), (ids[3], 0.5)
    ]  # fmt: skip
    [prompt_ids, completion_ids] = rows(
        engine, f"SELECT prompt_ids, completion_ids FROM exchanges WHERE id = '{ids[0]}'"
    )[0]
    before, after = (logprob(trainer, version, prompt_ids, completion_ids) for version in (0, 1))
    assert after > before + 0.5
    assert one(engine, "SELECT state FROM groups") == "open"  # rewards may still teach it


@pytest.mark.parametrize(
    ("arguments", "used"), [({"min_reward": 0.5}, 2), ({"min_reward": 0.2, "top": 0.5}, 2)]
)
def test_the_best_are_above_a_reward_or_a_share(engine, make_trainer, arguments, used) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0, 0.25, 0.5])
    sft(trainer, "best", **arguments)
    assert one(engine, "SELECT count(*) FROM step_samples WHERE is_used") == used


def test_greedy_answers_may_be_imitated_and_cut_off_ones_may_not(engine, make_trainer) -> None:
    """Nothing is asked about how a good answer was drawn; whoever imitates half an answer learns to stop nowhere."""
    trainer = make_trainer()
    greedy = add_group(engine, 1, [1.0], temperature=0.0)
    made = answered(engine, 2)
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(made.call_id), value=1.0))
        connection.exec_driver_sql(
            f"UPDATE exchanges SET finish_reason = 'length' WHERE id = '{made.call_id}'"
        )
    sft(trainer, "best", min_reward=1.0)
    assert rows(engine, "SELECT exchange_id, reason FROM step_samples ORDER BY 1") == [
        (greedy[0], None), (made.call_id, "truncated")
    ]  # fmt: skip
    assert metrics_of_step(engine)["left_out"] == {"truncated": 1}


def test_a_bad_turn_of_a_good_talk_is_not_among_the_best(engine, make_trainer) -> None:
    trainer = make_trainer()
    talk = [answered(engine, seed, attribution=whose("talk")) for seed in (1, 2)]
    for turn, value in zip(talk, (1.0, 0.2), strict=True):
        with engine.begin() as connection:
            post_reward(connection, "default", RewardPost(str(turn.call_id), value=value))
    sft(trainer, "best", min_reward=0.6)
    assert rows(engine, "SELECT exchange_id FROM step_samples") == [(talk[0].call_id,)]


def test_the_newest_demonstration_of_a_reply_counts_and_one_taken_back_does_not(engine, make_trainer) -> None:
    trainer = make_trainer()
    first, second = answered(engine, 1), answered(engine, 2)
    demonstrate(engine, first.call_id, "no.", source="user")
    newest = demonstrate(engine, first.call_id, "yes.", source="expert")
    demonstrate(engine, second.call_id, "no.")
    with engine.begin() as connection:
        taken_back = RewardPost(str(second.call_id), metric="demonstration", is_retraction=True)
        post_reward(connection, "default", taken_back)
    sft(trainer, "demonstrations")
    assert rows(engine, "SELECT exchange_id, reward_event_ids FROM step_samples") == [
        (first.call_id, [newest])
    ]


def test_an_imitated_exchange_is_explained_as_such(engine, make_trainer) -> None:
    """A reward that comes afterwards is no reward that was changed: the step read none."""
    from ledger.explanation.facts import read_explanation

    trainer = make_trainer()
    made = answered(engine)
    demonstrate(engine, made.call_id, "yes.")
    sft(trainer, "demonstrations")
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(made.call_id), value=1.0))
        explained = read_explanation(connection, "default", str(made.call_id))
    assert explained["verdict"] == "trained"
    said = " ".join(explained["story"])
    assert f"imitated the answer to exchange {made.call_id} (5 tokens, staleness 0)." in said
    assert "was changed" not in said


def test_an_imitated_trajectory_still_moves_the_running_baseline(engine, make_trainer) -> None:
    """What a step of sft looked at is not what a step of rewards has read."""
    trainer = make_trainer()
    ids = add_group(engine, 1, [1.0, 0.0])
    sft(trainer, "best", top=1.0)
    assert one(engine, "SELECT count(*) FROM step_samples WHERE is_used") == 2
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, "SELECT num_samples FROM route_baselines") == [(2,)]
    assert {row.exchange_id for row in rows(engine, "SELECT exchange_id FROM step_samples")} == set(ids)


def test_a_late_reward_of_an_imitated_trajectory_is_still_learned_from(engine, make_trainer) -> None:
    trainer = make_trainer(**NOW)
    records = three(engine, [1.0, 0.0, None])
    assert tick(trainer).state is StepState.PUBLISHED
    demonstrate(engine, records[2].call_id, "yes.")
    assert sft(trainer, "demonstrations").state is StepState.PUBLISHED
    reward(engine, records[2], 1.0)
    assert rows(engine, GROUPS) == [("task", 0, "trained"), ("task", 1, "open")]
