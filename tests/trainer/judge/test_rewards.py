"""What becomes of a judge's scores: they make a group ready and train it, a person's outrank them, an erasure empties them."""

from typing import Any

from sqlalchemy import Engine, text

from ledger.erasure.erase import erase_all
from ledger.erasure.subject import Subject
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.rewards.reading import trajectory_rewards
from ledger.vocabulary import ErasureSubject, StepState
from tests.fakes.judge import FakeJudge, scoring
from tests.trainer.judge.conftest import MakeJudge
from tests.trainer.judge.talk import add_answers
from tests.trainer.traffic import one, rows
from trainer.judge.run import judge_group
from trainer.step import tick


def test_a_judged_group_is_ready_and_is_trained(
    engine: Engine, fake: FakeJudge, make_trainer: Any, make_judge: MakeJudge
) -> None:
    """Scores 1 and 0 are rewards 1 and -1; the choices' mean is 0, so these are the advantages."""
    trainer = make_trainer()
    group_id, _ = add_answers(engine, ["good", "bad"])
    assert tick(trainer) is None
    judge_group(engine, make_judge(), group_id)
    step = tick(trainer)
    assert step.state == StepState.PUBLISHED
    samples = rows(engine, "SELECT reward, advantage, is_used FROM step_samples ORDER BY exchange_id")
    assert [tuple(row) for row in samples] == [(1.0, 1.0, True), (-1.0, -1.0, True)]


def test_equal_scores_of_a_judge_teach_nothing(
    engine: Engine, fake: FakeJudge, make_trainer: Any, make_judge: MakeJudge
) -> None:
    """B110"""
    trainer = make_trainer()
    group_id, _ = add_answers(engine, ["good", "bad"])
    fake.answers = [scoring(lambda _: 0.7)]
    judge_group(engine, make_judge(), group_id)
    tick(trainer)
    assert one(engine, "SELECT reason FROM groups") == "no_variance"
    assert one(engine, "SELECT live_version FROM policies") == 0


def test_a_persons_score_outranks_a_judges_whichever_came_first(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, (first, second) = add_answers(engine, ["good", "bad"])
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(first), value=-0.5))
    judge_group(engine, make_judge(rescores=True), group_id)
    with engine.begin() as connection:
        assert trajectory_rewards(connection, [first, second]) == {first: -0.5, second: -1.0}
        post_reward(connection, "default", RewardPost(str(second), value=0.25))
        assert trajectory_rewards(connection, [first, second]) == {first: -0.5, second: 0.25}
    told = rows(engine, "SELECT not_counted_reason FROM v1.rewards WHERE source = 'judge'")
    assert {row.not_counted_reason for row in told} == {"outranked"}


def test_an_erasure_empties_a_judges_explanations_and_leaves_its_scores(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, (gone, stays) = add_answers(engine, ["good", "bad"])
    judge_group(engine, make_judge(), group_id)
    erase_all(engine, "default", Subject(ErasureSubject.TRAJECTORY, str(gone)), "a test", None)
    found = {
        row.trajectory_id: (row.value, row.comment, row.source, row.idempotency_id)
        for row in rows(engine, "SELECT * FROM reward_events")
    }
    assert found[gone] == (1.0, None, "judge", None)
    assert found[stays][1] == "why 0.0"
    with engine.begin() as connection:
        kept = connection.scalar(text("SELECT CAST(r AS text) FROM judge_runs AS r"))
    assert "why" not in str(kept)
