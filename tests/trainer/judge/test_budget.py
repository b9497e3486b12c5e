"""The budget: what 24 hours may cost, reservations of running runs included, is never exceeded."""

from functools import partial
from uuid import UUID

import pytest
from sqlalchemy import Engine, text

from ledger.vocabulary import JudgeRunState
from tests.fakes.judge import FakeJudge
from tests.trainer.judge.begun import at_once, wanted_of
from tests.trainer.judge.conftest import MakeJudge
from tests.trainer.judge.talk import add_answers
from tests.trainer.traffic import one, rows
from trainer.judge import transitions
from trainer.judge.round import is_spent, judge_round
from trainer.judge.run import Outcome, judge_group
from trainer.judge.transitions import Budget, Wanted

STATES = "SELECT state FROM judge_runs ORDER BY created_at"


def test_a_run_that_may_cost_more_than_is_left_is_refused_with_the_reason(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    outcome = judge_group(engine, make_judge(budget=0.01), group_id)
    assert outcome.state is JudgeRunState.REFUSED
    assert "SLIPSTREAM_JUDGE_BUDGET" in str(outcome.reason)
    (run,) = rows(engine, "SELECT * FROM judge_runs")
    assert (run.state, run.cost, run.num_calls, run.reason) == ("refused", None, None, outcome.reason)
    assert fake.asked == []


def test_a_group_is_refused_once_a_day_in_the_ledger(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge(budget=0)
    assert [judge_group(engine, judge, group_id).state for _ in range(3)] == [JudgeRunState.REFUSED] * 3
    assert len(rows(engine, STATES)) == 1


def test_a_model_without_a_price_has_a_budget_of_tokens(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """Its cost is unknown, so dollars refuse nothing: 120 tokens a run, and a reservation of two calls."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge(model="openai/my-own-model", max_tokens=100, budget=0, token_budget=4_000)
    first = judge_group(engine, judge, group_id)
    assert (first.state, first.usage.cost, first.usage.num_tokens) == (JudgeRunState.FINISHED, None, 120)
    refused = judge_group(engine, make_judge(model="openai/my-own-model", token_budget=200), group_id)
    assert "SLIPSTREAM_JUDGE_TOKEN_BUDGET" in str(refused.reason)


def test_what_was_spent_a_day_ago_is_forgotten(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge(max_tokens=100, token_budget=4_000)
    judge_group(engine, judge, group_id)
    with engine.begin() as connection:
        connection.execute(text("UPDATE judge_runs SET num_prompt_tokens = 3900"))
    assert judge_group(engine, judge, group_id).state is JudgeRunState.REFUSED
    with engine.begin() as connection:
        connection.execute(text("UPDATE judge_runs SET created_at = created_at - INTERVAL '25 hours'"))
    assert judge_group(engine, judge, group_id).state is JudgeRunState.FINISHED


def test_runs_at_once_reserve_and_together_stay_within_the_budget(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """Of six that begin at once, as many run as have room: two, where the budget is two and a half reservations."""
    judge = make_judge(max_tokens=100)
    wanted = [wanted_of(engine, judge, add_answers(engine, ["good", "bad"])[0]) for _ in range(6)]
    budget = Budget(100.0, int(2.5 * wanted[0].reserved.num_tokens))
    begun: list[UUID | None] = []

    def begin(one: Wanted) -> None:
        with engine.begin() as connection:
            begun.append(transitions.begin(connection, one, budget)[0])

    at_once(*(partial(begin, one) for one in wanted))
    assert sum(run_id is not None for run_id in begun) == 2
    states = [row.state for row in rows(engine, STATES)]
    assert (states.count("running"), states.count("refused")) == (2, 4)


def test_a_round_ends_where_nothing_is_left_of_the_budget(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    groups = [add_answers(engine, ["good", "bad"])[0] for _ in range(3)]
    judge = make_judge(token_budget=0)
    found: list[Outcome] = list(judge_round(engine, judge, dict.fromkeys(groups)))
    assert [outcome.state for outcome in found] == [JudgeRunState.REFUSED]
    assert is_spent(engine, judge.settings)
    assert one(engine, "SELECT count(*) FROM judge_runs") == 1


def test_a_model_behind_a_gateway_has_the_price_of_its_own_name(make_judge: MakeJudge) -> None:
    """gpt-4o: 2.50 and 10 US dollars for a million tokens."""
    for name in ("openai/gpt-4o", "openai/openai/gpt-4o"):
        assert make_judge(model=name).model.price(1_000_000, 100_000) == pytest.approx(3.5)
    assert make_judge(model="openai/my/own").model.price(1_000, 1_000) is None
