"""A judge that is this very proxy: what it is asked is recorded as a side turn, and never becomes a sample or a group."""

from sqlalchemy import Engine, text

from ledger.vocabulary import JudgeRunState, Scope
from tests.proxy.callers import make
from tests.proxy.running import RunningProxy, eventually
from tests.trainer.judge.talk import add_answers
from trainer.judge.group import find_candidates
from trainer.judge.model import JudgeModel
from trainer.judge.process import LitellmProcess
from trainer.judge.rubric import DEFAULT_RUBRIC
from trainer.judge.run import Judge, judge_group
from trainer.judge.settings import JudgeSettings

SIDE = "SELECT is_trainable, untrainable_reason, turn_type FROM exchanges WHERE turn_type = 'side'"


def test_what_a_judge_is_asked_through_this_proxy_is_never_trained_on(
    engine: Engine, database_url: str, proxy: RunningProxy
) -> None:
    """The fake vLLM answers no scores: both calls of the vote are made, and the run fails. The base judges, not a learner."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    key = make(engine, Scope.INFER)
    values = {"model": "openai/default@base", "base_url": f"{proxy.url}/v1", "api_key": key}
    settings = JudgeSettings(database_url=database_url, **values)
    with LitellmProcess() as process:
        outcome = judge_group(
            engine, Judge(settings, JudgeModel(settings, process), DEFAULT_RUBRIC), group_id
        )
    assert outcome.state is JudgeRunState.FAILED
    assert "no JSON" in str(outcome.reason)
    assert outcome.usage.cost is None  # nobody's price list knows this model
    with engine.connect() as connection:
        found = eventually(lambda: len(rows := connection.execute(text(SIDE)).all()) == 2 and rows)
        assert set(found) == {(False, "opted_out", "side")}
        assert connection.scalar(text("SELECT count(*) FROM groups")) == 1
        assert find_candidates(connection, limit=10) == {group_id: 0}
