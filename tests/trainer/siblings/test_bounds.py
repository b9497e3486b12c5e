"""Bounds of siblings: a budget that midnight does not lift, an end to waiting, nothing sampled that cannot be used, no run that holds up others."""

from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from ledger.rewards.metrics import Metric, declare_metric
from ledger.siblings.runs import tokens_of_today
from ledger.vocabulary import Direction
from tests.fakes.vllm_tokens import prompt_ids_of
from tests.trainer.siblings.originals import add_original, expire, run_of
from tests.trainer.siblings.test_faults import NUM_TOKENS, change
from tests.trainer.traffic import one, rows
from trainer.siblings import scoring
from trainer.siblings import siblings as story
from trainer.siblings.siblings import make_siblings

HOUR = 3_600.0


def age(engine, hours: float) -> None:
    change(engine, f"UPDATE sibling_runs SET created_at = created_at - make_interval(secs => {hours * HOUR})")


def spent(engine, age_seconds: float = HOUR) -> int:
    with engine.connect() as connection:
        return tokens_of_today(connection, age_seconds)


def declare(engine, *rule: Any) -> None:
    with engine.begin() as connection:
        declare_metric(connection, "default", "default", Metric("reward", *rule))


def test_what_a_run_of_yesterday_samples_today_counts_today(engine, siblings) -> None:
    add_original(engine)
    make_siblings(siblings(per_pass=1))
    age(engine, 24)
    expire(engine)
    assert spent(engine) == NUM_TOKENS
    assert make_siblings(siblings(age_seconds=48 * HOUR, tokens_per_day=2 * NUM_TOKENS - 1)) == 0
    expire(engine)
    assert make_siblings(siblings(age_seconds=48 * HOUR, tokens_per_day=2 * NUM_TOKENS)) == 1
    assert spent(engine) == 2 * NUM_TOKENS
    change(engine, "UPDATE sibling_runs SET finished_at = now() - INTERVAL '1 day'")
    assert spent(engine) == 0


@pytest.mark.parametrize(("per_pass", "found"), [(1, ("finished", None, 1)), (0, ("dropped", "too_old", 0))])
def test_a_run_that_waited_too_long_is_given_up_or_scored_as_far_as_it_came(
    engine, vllm, scorer, siblings, per_pass: int, found: tuple[str, str | None, int]
) -> None:
    add_original(engine)
    make_siblings(siblings(per_pass=1))
    if not per_pass:
        change(engine, "UPDATE sibling_runs SET sibling_ids = ARRAY[gen_random_uuid()]")
    age(engine, 2)
    expire(engine)
    assert make_siblings(siblings()) == 0
    assert (run_of(engine).state, run_of(engine).reason, len(scorer.seen)) == found
    assert len(vllm.chats()) == 1


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE groups SET state = 'claimed'", "group_closed"),
        ("UPDATE trajectories SET erased_at = now()", "erased"),
    ],
)
def test_nothing_is_sampled_where_it_could_not_be_used(
    engine, vllm, siblings, statement: str, reason: str
) -> None:
    """The first one is there; before the second somebody looks."""
    add_original(engine)
    make_siblings(siblings(per_pass=1))
    expire(engine)
    change(engine, statement)
    assert make_siblings(siblings()) == 0
    assert (run_of(engine).reason, len(vllm.chats())) == (reason, 1)
    assert run_of(engine).num_tokens == NUM_TOKENS


def test_a_sibling_is_scored_in_the_range_that_the_policy_declares(engine, scorer, siblings) -> None:
    """10 of 0 to 10, where lower is better, is worth -1."""
    add_original(engine)
    declare(engine, 0.0, 10.0, Direction.LOWER)
    scorer.answers = [(200, '{"reward": 10}')]
    make_siblings(siblings(num_siblings=1))
    assert run_of(engine).state == "finished"
    assert one(engine, "SELECT score FROM v1.rewards WHERE source = 'scorer'") == -1.0


def test_a_policy_that_does_not_count_rewards_gets_no_siblings(engine, vllm, siblings) -> None:
    add_original(engine)
    declare(engine, -1.0, 1.0, Direction.HIGHER, 0.0)
    assert make_siblings(siblings()) == 0
    assert (vllm.chats(), rows(engine, "SELECT * FROM sibling_runs")) == ([], [])


def test_a_score_that_is_refused_is_a_failure_of_the_scorer_s(engine, scorer, siblings, monkeypatch) -> None:
    """The range is declared anew while the scorer thinks."""
    add_original(engine)
    score = scoring.score

    def slow(*given: Any, **named: Any) -> Any:
        said = score(*given, **named)
        declare(engine, 5.0, 10.0)
        return said

    monkeypatch.setattr(scoring, "score", slow)
    make_siblings(siblings(num_siblings=1, retry_seconds=60))
    run = run_of(engine)
    assert (run.state, run.num_attempts, run.lease_owner) == ("scoring", 1, None)


def test_an_error_of_any_kind_is_counted_and_holds_up_no_other_run(
    engine, vllm, siblings, monkeypatch
) -> None:
    """What it says is a user's, perhaps: it is not logged here."""
    add_original(engine)
    record = story.record_sibling

    def broken(connection: Any, *_: Any) -> None:
        connection.execute(text("SELECT 1 / 0"))

    monkeypatch.setattr(story, "record_sibling", broken)
    with capture_logs() as logs, pytest.raises(Exception, match="division"):
        make_siblings(siblings(retry_seconds=60))
    run = run_of(engine)
    assert (run.state, run.num_attempts, run.lease_owner) == ("sampling", 1, None)
    assert [line["why"] for line in logs if line["event"] == "sibling_failed"] == ["DataError"]
    monkeypatch.setattr(story, "record_sibling", record)
    other = [{"role": "user", "content": "Another."}]
    add_original(engine, messages=other, prompt_ids=prompt_ids_of(other))
    make_siblings(siblings(owner="b"))
    assert one(engine, "SELECT count(*) FROM sibling_runs") == 2
    assert len(vllm.chats()) > 1
