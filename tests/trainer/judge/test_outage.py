"""A judge that does not answer: the round ends, the worker waits longer each time, no group is given up, and it is in the books."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, text

from ledger.vocabulary import JudgeRunState
from tests.fakes.judge import FakeJudge, same, scores, scoring
from tests.trainer.judge.conftest import MakeJudge
from tests.trainer.judge.talk import add_answers
from tests.trainer.judge.test_failures import error_of
from tests.trainer.traffic import one, rows
from trainer.judge.errors import JudgeCallError
from trainer.judge.group import find_candidates
from trainer.judge.model import Reply
from trainer.judge.prompt import Attempt, make_prompt
from trainer.judge.round import MAX_FAILURES, candidates_of_the_worker, judge_round
from trainer.judge.run import Judge, judge_group
from trainer.judge.transitions import Usage, is_resting
from trainer.judge.vote import vote

CALL = Usage(1, 100, 50, 0.25)


def prompt_of_two() -> Any:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    return make_prompt([Attempt(uuid4(), messages) for _ in range(2)], "r", "s", 10_000)


def answers(*given: Any) -> Any:
    left = list(given)

    def ask(_: object) -> Reply:
        said = left.pop(0)
        if isinstance(said, Exception):
            raise said
        return Reply(said, "stop", 7, 3, 0.01)

    return ask


def test_a_call_without_an_answer_counts_as_what_was_reserved_for_it() -> None:
    """Two of 150 tokens and 25 cents; then one of them and 10 tokens, for a cent."""
    prompt, silence = prompt_of_two(), JudgeCallError("the judge did not answer within 125 s")
    assert vote(answers(silence, silence), prompt, CALL).usage == Usage(2, 200, 100, 0.5)
    good = scores(**dict.fromkeys(prompt.ids, 1))
    assert vote(answers(silence, good), prompt, CALL).usage == Usage(2, 107, 53, 0.26)


def test_a_call_that_was_refused_or_never_sent_costs_nothing() -> None:
    refused = JudgeCallError("401", is_free=True)
    assert vote(answers(refused, refused), prompt_of_two(), CALL).usage == Usage(2)


def test_the_last_call_says_whether_it_was_an_outage() -> None:
    silence = JudgeCallError("silence")
    assert vote(answers("no", silence), prompt_of_two(), CALL).is_outage
    assert not vote(answers(silence, "no"), prompt_of_two(), CALL).is_outage
    assert not vote(answers(silence, JudgeCallError("400", is_outage=False)), prompt_of_two(), CALL).is_outage


def test_the_shares_of_calls_are_at_least_what_they_are_of() -> None:
    assert Usage(4, 10, 4, 1.0).of_one_call == Usage(1, 3, 1, 0.25)
    assert Usage(2, 1, 0, None).of_one_call == Usage(1, 1, 0, None)


def test_a_judge_that_hangs_stays_in_the_budget(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """Both calls of its vote: the whole reservation."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    fake.hangs = True
    judge_group(engine, make_judge(timeout_seconds=1, max_tokens=100), group_id)
    (run,) = rows(engine, "SELECT * FROM judge_runs")
    assert (run.state, run.is_outage, run.num_completion_tokens) == ("failed", True, 200)
    assert run.num_prompt_tokens > 200
    assert run.cost > 0


def test_ctrl_c_in_a_call_leaves_what_was_reserved(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge(max_tokens=100)

    def interrupted(*_: object) -> Reply:
        raise KeyboardInterrupt

    monkeypatch.setattr(judge.model, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        judge_group(engine, judge, group_id)
    (run,) = rows(engine, "SELECT * FROM judge_runs")
    assert (run.state, run.is_outage, run.num_calls, run.num_completion_tokens) == ("failed", True, 2, 200)


@pytest.mark.parametrize(
    ("status", "is_outage", "is_free"),
    [(400, False, True), (401, True, True), (429, True, True), (500, True, False), (503, True, True)],
)
def test_a_status_says_whose_fault_it_is_and_whether_it_is_billed(
    fake: FakeJudge, make_judge: MakeJudge, status: int, is_outage: bool, is_free: bool
) -> None:
    fake.answers = [error_of(status, "x")]
    with pytest.raises(JudgeCallError) as said:
        make_judge().model.ask([{"role": "system", "content": "x"}, {"role": "user", "content": "x"}])
    assert (said.value.is_outage, said.value.is_free) == (is_outage, is_free)


def worker_looks(engine: Engine, judge: Judge) -> list[JudgeRunState | None]:
    groups = candidates_of_the_worker(engine, judge.settings)
    return [outcome.state for outcome in judge_round(engine, judge, groups)]


def a_while_later(engine: Engine, seconds: int) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE judge_runs SET finished_at = finished_at - make_interval(secs => :seconds)"),
            {"seconds": seconds},
        )


def test_an_outage_ends_the_round_and_gives_up_no_group(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """One group a look is tried, the next one at the next; afterwards all are judged."""
    groups = [add_answers(engine, ["good", "bad"])[0] for _ in range(3)]
    judge = make_judge(wait_seconds=0, groups_per_tick=3)
    fake.answers = [error_of(503, "away")]
    for tried in range(1, MAX_FAILURES + 2):
        assert worker_looks(engine, judge) == [JudgeRunState.FAILED]
        assert one(engine, "SELECT count(DISTINCT group_id) FROM judge_runs") == tried
        assert worker_looks(engine, judge) == []
        a_while_later(engine, 3_600)
    assert len(fake.asked) == 2 * 3
    fake.answers = [scoring(lambda block: float("good" in block))]
    assert worker_looks(engine, judge) == [JudgeRunState.FINISHED] * 3
    with engine.connect() as connection:
        assert find_candidates(connection, limit=10) == {}
    assert len(groups) == one(engine, "SELECT count(*) FROM judge_runs WHERE state = 'finished'")


def test_the_worker_waits_twice_as_long_after_each_outage_in_a_row(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """60 s after the first, 120 s after the second; an answer, a bad one too, ends it."""
    for _ in range(2):
        add_answers(engine, ["good", "bad"])
    judge = make_judge(wait_seconds=0)

    def rests(seconds: int) -> bool:
        a_while_later(engine, seconds)
        with engine.connect() as connection:
            return is_resting(connection)

    fake.answers = [error_of(503, "away")]
    worker_looks(engine, judge)
    assert [rests(50), rests(11)] == [True, False]
    worker_looks(engine, judge)
    assert [rests(110), rests(11)] == [True, False]
    fake.answers = [same("?")]
    worker_looks(engine, judge)
    assert not rests(0)
