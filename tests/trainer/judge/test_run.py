"""A judge run from a group to its rewards, through the real LiteLLM."""

from typing import Any

from sqlalchemy import Engine, text

from ledger.vocabulary import JudgeRunState
from tests.fakes.judge import FakeJudge, scoring
from tests.trainer.judge.conftest import MakeJudge
from tests.trainer.judge.talk import TASK, add_answers
from tests.trainer.traffic import one, rows
from trainer.judge.group import read_group
from trainer.judge.run import judge_group

EVENTS = "SELECT trajectory_id, value, comment, source, metric FROM reward_events ORDER BY trajectory_id"


def run_of(engine: Engine) -> Any:
    return rows(engine, "SELECT * FROM judge_runs ORDER BY id DESC LIMIT 1")[0]


def test_each_member_gets_a_reward_of_the_policys_range_with_its_reason(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """0.75 of the range -1 to 1 is 0.5."""
    group_id, (first, second) = add_answers(engine, ["Four.", "Five."])
    fake.answers = [scoring(lambda block: 0.75 if "Four" in block else 0)]
    outcome = judge_group(engine, make_judge(), group_id)
    assert outcome.state is JudgeRunState.FINISHED
    assert [tuple(row) for row in rows(engine, EVENTS)] == [
        (first, 0.5, "why 0.75", "judge", "reward"),
        (second, -1.0, "why 0", "judge", "reward"),
    ]
    assert outcome.rewards == {first: 0.5, second: -1.0}


def test_the_run_says_what_was_asked_and_what_it_cost(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, (first, second) = add_answers(engine, ["good", "bad"])
    judge_group(engine, make_judge(), group_id)
    run = run_of(engine)
    assert (run.state, run.model, run.num_votes, run.num_calls) == ("finished", "openai/gpt-4o", 1, 1)
    assert (run.num_prompt_tokens, run.num_completion_tokens) == (100, 20)
    assert run.cost is not None
    assert 0 < run.cost < 0.01
    assert run.scores["votes"] == {str(first): [1.0], str(second): [0.0]}
    assert run.scores["unscored"] == [str(first), str(second)]
    assert len(run.scores["seed"]) == 32


def test_what_all_share_is_shown_once_and_each_answer_in_a_block_of_its_own(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad", "ugly"])
    judge_group(engine, make_judge(), group_id)
    (asked,) = fake.asked
    assert asked.task.count("What is 2 + 2?") == asked.text.count("What is 2 + 2?") == 1
    assert sorted(asked.attempts.values()) == [
        f'{{"role": "assistant", "content": "{answer}"}}' for answer in ("bad", "good", "ugly")
    ]
    assert TASK[0]["content"] in asked.task


def test_it_is_asked_with_a_stated_temperature_a_limit_and_as_a_side_turn(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """What is judged with, through this very proxy, is never trained on."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge_group(engine, make_judge(temperature=0.25, max_tokens=77), group_id)
    (asked,) = fake.asked
    assert (asked.body["temperature"], asked.body["max_tokens"]) == (0.25, 77)
    assert asked.body["store"] is False
    assert asked.headers["x-turn-type"] == "side"
    assert not asked.body.get("stream")


def test_votes_are_shuffled_anew_and_their_mean_and_spread_are_kept(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """Votes 0.2, 0.4 and 0.9 for each: mean 0.5, which is 0 in the range -1 to 1; their spread is 0.29439."""
    group_id, ids = add_answers(engine, ["a", "b", "c", "d", "e", "f"])
    fake.answers = [scoring(lambda _, score=score: score) for score in (0.2, 0.4, 0.9)]
    judge_group(engine, make_judge(votes=3), group_id)
    orders = {tuple(asked.attempts.values()) for asked in fake.asked}
    used = [id_ for asked in fake.asked for id_ in asked.attempts]
    assert len(fake.asked) == len(orders) == 3
    assert len(used) == len(set(used)) == 18
    values = rows(engine, "SELECT value, comment FROM reward_events")
    assert {round(row.value, 9) for row in values} == {0.0}
    assert {row.comment for row in values} == {"why 0.4 [mean of 3 votes: 0.2, 0.4, 0.9]"}
    run = run_of(engine)
    assert run.num_calls == 3
    assert run.scores["votes"][str(ids[0])] == [0.2, 0.4, 0.9]
    assert round(run.scores["spread"][str(ids[0])], 5) == 0.29439


def test_the_recorded_seed_gives_the_same_prompt_again(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad", "ugly"])
    judge = make_judge()
    judge_group(engine, judge, group_id)
    with engine.connect() as connection:
        group = read_group(connection, group_id)
    assert group is not None
    again = judge.prompt(group.attempts(rescores=True), f"{run_of(engine).scores['seed']}:0")
    assert again.messages == fake.asked[0].body["messages"]


def test_a_rubric_of_ones_own_is_what_the_judge_reads(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge_group(engine, make_judge(rubric="Only {rhymes} count."), group_id)
    assert "Only {rhymes} count." in fake.asked[0].body["messages"][0]["content"]


def test_a_group_that_is_no_longer_open_is_not_judged(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    with engine.begin() as connection:
        connection.execute(text("UPDATE groups SET state = 'trained'"))
    outcome = judge_group(engine, make_judge(), group_id)
    assert (outcome.state, outcome.reason) == (None, "it is trained")
    assert fake.asked == []
    assert one(engine, "SELECT count(*) FROM judge_runs") == 0
