"""A policy that declares `reward` anew: a judge's score is posted as it reads it, or not at all (B111)."""

from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.rewards.metrics import Metric, declare_metric, reward_scale
from ledger.rewards.ranges import Scale
from ledger.rewards.reading import trajectory_rewards
from ledger.vocabulary import Direction, JudgeRunState
from tests.fakes.judge import FakeJudge
from tests.fakes.scorer import running_fake_scorer
from tests.trainer.judge.conftest import MakeJudge
from tests.trainer.judge.talk import add_answers
from tests.trainer.traffic import one, rows
from trainer.judge.group import find_candidates
from trainer.judge.run import judge_group
from trainer.judge.scoring import score_group


def declare(engine: Engine, *rule: Any, name: str = "reward") -> None:
    with engine.begin() as connection:
        declare_metric(connection, "default", "default", Metric(name, *rule))


@pytest.mark.parametrize(
    ("rule", "posted"),
    [
        ((0.0, 10.0), (10.0, 0.0)),
        ((-1.0, 1.0, Direction.LOWER), (-1.0, 1.0)),
        ((0.0, 10.0, Direction.LOWER, 0.5), (0.0, 10.0)),
    ],
)
def test_the_best_attempt_gets_the_best_value_of_the_declared_range(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge, rule: Any, posted: tuple[float, float]
) -> None:
    """Whatever the scale, on the policy's own the best is worth 1 and the worst -1."""
    judge = make_judge()
    group_id, (good, bad) = add_answers(engine, ["good", "bad"])
    declare(engine, *rule)
    assert judge_group(engine, judge, group_id).rewards == dict(zip((good, bad), posted, strict=True))
    with engine.connect() as connection:
        assert trajectory_rewards(connection, [good, bad]) == {good: 1.0, bad: -1.0}


def test_a_policy_that_does_not_count_rewards_is_not_judged(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    judge = make_judge()
    group_id, _ = add_answers(engine, ["good", "bad"])
    declare(engine, -1.0, 1.0, Direction.HIGHER, 0.0)
    declare(engine, 0.0, 1.0, name="helpful")
    with engine.connect() as connection:
        assert find_candidates(connection, limit=10) == {}
    assert "weight 0" in str(judge_group(engine, judge, group_id).reason)
    assert "weight 0" in str(score_group(engine, judge.settings, group_id).reason)
    assert (fake.asked, rows(engine, "SELECT * FROM judge_runs")) == ([], [])


def test_scores_that_are_refused_end_the_run_as_failed_with_what_it_cost(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """The range is declared anew while the judge thinks: 1 is no value of 5 to 10."""
    judge, answer = make_judge(), fake.answers[0]
    group_id, _ = add_answers(engine, ["good", "bad"])

    def slow(asked: Any) -> Any:
        declare(engine, 5.0, 10.0)
        return answer(asked)

    fake.answers = [slow]
    outcome = judge_group(engine, judge, group_id)
    assert outcome.state is JudgeRunState.FAILED
    assert "refused" in str(outcome.reason)
    (run,) = rows(engine, "SELECT * FROM judge_runs")
    assert (run.state, run.num_calls, run.num_prompt_tokens, run.scores) == ("failed", 1, 100, None)
    assert one(engine, "SELECT count(*) FROM reward_events") == 0


def test_an_operators_scorer_speaks_the_declared_range(engine: Engine, make_judge: MakeJudge) -> None:
    group_id, ids = add_answers(engine, ["a", "b"])
    with running_fake_scorer() as scorer:
        settings = make_judge(scorer_url=scorer.url, scorer_attempts=1).settings
        declare(engine, 5.0, 10.0)
        scorer.answers = [(200, '{"reward": 10}'), (200, '{"reward": 1}')]
        outcome = score_group(engine, settings, group_id)
    assert (outcome.rewards, outcome.state) == ({ids[0]: 10.0}, JudgeRunState.FAILED)
    assert "from 5 to 10" in str(outcome.reason)


def test_a_scale_reads_what_is_declared_and_never_leaves_its_range(
    engine: Engine, make_judge: MakeJudge
) -> None:
    """0.1 + 1.0 * (0.7 - 0.1) is 0.7 and a bit less; -0.3 + (0.1 + 0.3) is 0.1 and a bit more."""
    make_judge()
    with engine.connect() as connection:
        assert reward_scale(connection, "default", "default") == Scale(-1.0, 1.0)
    declare(engine, -0.3, 0.1, Direction.LOWER, 2.0)
    with engine.connect() as connection:
        scale = reward_scale(connection, "default", "default")
    assert scale == Scale(-0.3, 0.1, Direction.LOWER, 2.0)
    assert (scale.value_of(0.0), scale.value_of(1.0), scale.value_of(0.5)) == (0.1, -0.3, pytest.approx(-0.1))
    assert not Scale(0.0, 1.0, weight=0.0).is_counted
