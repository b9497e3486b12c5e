"""A round: some groups judged, one after the other, until the budget is spent."""

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from sqlalchemy import Engine

from ledger.vocabulary import JudgeRunState
from trainer.judge import transitions
from trainer.judge.group import find_candidates
from trainer.judge.run import Judge, Outcome, judge_group
from trainer.judge.settings import JudgeSettings

MAX_FAILURES = 2  # in a day, outages left out: then the worker leaves a group alone
DAYS = (
    3  # older groups are left alone, too: an open group for each unscored call of a year is no place to look
)


def candidates_of_the_worker(engine: Engine, settings: JudgeSettings) -> dict[UUID, int]:
    """Groups that seem to be complete, in which nobody speaks any more. None soon after the judge did not answer."""
    with engine.begin() as connection:
        if transitions.is_resting(connection):
            return {}
        return find_candidates(
            connection,
            limit=settings.groups_per_tick,
            wait_seconds=settings.wait_seconds,
            max_failures=MAX_FAILURES,
            days=DAYS,
        )


def judge_round(
    engine: Engine,
    judge: Judge,
    groups: Mapping[UUID, int | None],
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Outcome]:
    """What became of each of `groups`, which are as judge_group takes them. Where nothing is left of the budget, or nobody answers, the rest is not looked at."""
    for group_id, num_finished in groups.items():
        if should_stop():
            return
        outcome = judge_group(engine, judge, group_id, num_finished)
        yield outcome
        if outcome.is_outage:
            return
        if outcome.state is JudgeRunState.REFUSED and is_spent(engine, judge.settings):
            return


def is_spent(engine: Engine, settings: JudgeSettings) -> bool:
    with engine.begin() as connection:
        used = transitions.spent(connection)
    return (used.cost or 0.0) >= settings.budget or used.num_tokens >= settings.token_budget
