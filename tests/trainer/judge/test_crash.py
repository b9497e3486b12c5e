"""Two that begin at once, and one that dies: a group is judged by one run, and its scores are written once (ADR 0016)."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text

from ledger.vocabulary import JudgeRunState
from tests.fakes.judge import Asked, FakeJudge
from tests.trainer.judge.begun import at_once, wanted_of
from tests.trainer.judge.conftest import MakeJudge
from tests.trainer.judge.talk import add_answers
from tests.trainer.traffic import one, rows
from trainer.judge import run, transitions
from trainer.judge.group import find_candidates
from trainer.judge.round import judge_round
from trainer.judge.run import Outcome, budget_of, judge_group
from trainer.judge.tally import Tally
from trainer.judge.transitions import Usage

STATES = "SELECT state FROM judge_runs ORDER BY created_at"
NUM_EVENTS = "SELECT count(*) FROM reward_events"


def expire(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE judge_runs SET expires_at = now() - INTERVAL '1 second'"))


def test_a_group_is_judged_by_one_of_many_who_begin_at_once(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    wanted = wanted_of(engine, judge, group_id)
    begun: list[object] = []

    def begin() -> None:
        with engine.begin() as connection:
            begun.append(transitions.begin(connection, wanted, budget_of(judge.settings)))

    at_once(*[begin] * 5)
    assert begun.count((None, None)) == 4
    assert len(rows(engine, STATES)) == 1
    assert judge_group(engine, judge, group_id).reason == "another process judges it, or just did"
    assert fake.asked == []


def test_who_read_the_group_before_another_finished_it_does_not_judge_it_again(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """A message that is delivered twice, a worker that is slow: its look is older than the scores."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    stale = wanted_of(engine, judge, group_id)
    judge_group(engine, judge, group_id)
    with engine.begin() as connection:
        assert transitions.begin(connection, stale, budget_of(judge.settings)) == (None, None)


def test_who_reads_the_group_while_another_commits_its_scores_does_not_judge_it_again(
    engine: Engine, make_judge: MakeJudge
) -> None:
    """The other's run says already when it finished, and nobody sees that yet."""
    group_id, members = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    with engine.begin() as connection:
        run_id, _ = transitions.begin(
            connection, wanted_of(engine, judge, group_id), budget_of(judge.settings)
        )
    assert run_id is not None
    with engine.begin() as connection:
        assert transitions.finish(connection, run_id, Usage(1, 100, 20), {"votes": {}})
        tallies = dict.fromkeys(members, Tally((1.0,), 1.0, 0.0, "why"))
        run.write_events(connection, "default", run_id, tallies, dict.fromkeys(members, 1.0))
        early = wanted_of(engine, judge, group_id)
    with engine.begin() as connection:
        assert transitions.begin(connection, early, budget_of(judge.settings)) == (None, None)


def test_who_chose_the_group_before_another_finished_it_does_not_judge_it_again_having_read_it_since(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """A worker's list is as old as its first group took. Who asks for the group by name gets it judged again."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    with engine.connect() as connection:
        chosen = find_candidates(connection, limit=10)
    assert chosen == {group_id: 0}
    judge_group(engine, judge, group_id)
    assert [outcome.state for outcome in judge_round(engine, judge, chosen)] == [None]
    assert len(fake.asked) == 1
    assert judge_group(engine, judge, group_id).state is JudgeRunState.FINISHED


def test_a_crash_between_the_answers_and_the_scores_leaves_neither_and_is_repeated_once(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    with monkeypatch.context() as patch:
        patch.setattr(run, "write_events", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            judge_group(engine, judge, group_id)
    assert [row.state for row in rows(engine, STATES)] == ["running"]
    assert one(engine, NUM_EVENTS) == 0
    assert judge_group(engine, judge, group_id).state is None
    expire(engine)
    assert judge_group(engine, judge, group_id).state is JudgeRunState.FINISHED
    assert [row.state for row in rows(engine, STATES)] == ["failed", "finished"]
    assert one(engine, NUM_EVENTS) == 2


def test_a_run_that_was_taken_over_writes_nothing(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """It hears its judge's answer only after another run has the group."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge, answer = make_judge(), fake.answers[0]
    wanted = wanted_of(engine, judge, group_id)

    def slow(asked: Asked) -> Any:
        expire(engine)
        with engine.begin() as connection:
            assert transitions.begin(connection, wanted, budget_of(judge.settings))[0] is not None
        return answer(asked)

    fake.answers = [slow]
    late = judge_group(engine, judge, group_id)
    assert (late.state, late.rewards) == (None, {})
    assert [row.state for row in rows(engine, STATES)] == ["failed", "running"]
    assert one(engine, NUM_EVENTS) == 0


def test_a_commit_whose_answer_was_lost_is_repeated_without_a_second_event(
    engine: Engine, make_judge: MakeJudge
) -> None:
    group_id, (first, second) = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    with engine.begin() as connection:
        run_id, _ = transitions.begin(
            connection, wanted_of(engine, judge, group_id), budget_of(judge.settings)
        )
    assert run_id is not None
    tallies = {id_: Tally((1.0,), 1.0, 0.0, "why") for id_ in (first, second)}
    for _ in range(2):
        with engine.begin() as connection:
            assert transitions.finish(connection, run_id, Usage(1, 100, 20), {"votes": {}})
            run.write_events(connection, "default", run_id, tallies, {first: 1.0, second: -1.0})
    assert one(engine, NUM_EVENTS) == 2
    assert {row.idempotency_id for row in rows(engine, "SELECT idempotency_id FROM reward_events")} == {
        f"judge:{run_id}:{first}",
        f"judge:{run_id}:{second}",
    }


def test_postgres_away_at_the_end_is_waited_for(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections are cut when the judge has answered; the pool makes new ones."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    finish, num_calls = transitions.finish, [0]

    def broken(connection: object, *rest: object) -> bool:
        num_calls[0] += 1
        if num_calls[0] == 1:
            connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))  # type: ignore[attr-defined]
        return finish(connection, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(transitions, "finish", broken)
    assert judge_group(engine, make_judge(), group_id).state is JudgeRunState.FINISHED
    assert num_calls == [2]
    assert one(engine, NUM_EVENTS) == 2


def test_a_group_that_is_gone_is_said(engine: Engine, make_judge: MakeJudge) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM groups"))
    look = partial(judge_group, engine, make_judge())
    assert look(group_id) == Outcome(group_id, None, "there is no such group")
