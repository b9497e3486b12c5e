"""The operator's scorer: what it is asked, and that only a number of the policy's range passes (B111, B131)."""

from collections.abc import Iterator
from typing import Any

import pytest

from ledger.identifiers import new_id
from tests.fakes.scorer import FakeScorer, running_fake_scorer
from trainer.judge.errors import ScorerAnswerError, ScorerUnreachableError
from trainer.judge.scorer import Scored, score
from trainer.judge.settings import JudgeSettings

KEY = "canary-scorer-5d41402abc4b2a76"
MESSAGES = [{"role": "user", "content": "2 + 2?"}]
ANSWER = {"role": "assistant", "content": "Four."}


@pytest.fixture
def scorer() -> Iterator[FakeScorer]:
    with running_fake_scorer() as fake:
        yield fake


def settings_of(scorer: FakeScorer, **changes: Any) -> JudgeSettings:
    values = {"database_url": "postgresql://nowhere.invalid/x", "scorer_url": scorer.url}
    return JudgeSettings(**(values | changes))


def scored(scorer: FakeScorer, **changes: Any) -> Scored:
    settings = settings_of(scorer, **changes)
    return score(settings, messages=MESSAGES, answer=ANSWER, trajectory_id=new_id())


def test_it_is_asked_with_messages_answer_id_and_metadata(scorer: FakeScorer) -> None:
    id_ = new_id()
    said = score(
        settings_of(scorer, scorer_key=KEY),
        messages=MESSAGES,
        answer=ANSWER,
        trajectory_id=id_,
        metadata={"a": 1},
    )
    assert said == Scored(0.5, "half")
    assert scorer.seen == [
        {"messages": MESSAGES, "answer": ANSWER, "trajectory_id": str(id_), "metadata": {"a": 1}}
    ]
    assert scorer.headers[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("text", "reward"), [('{"reward": true}', 1.0), ('{"reward": -1}', -1.0), ('{"reward": 1e-3}', 0.001)]
)
def test_numbers_and_booleans_are_rewards(scorer: FakeScorer, text: str, reward: float) -> None:
    scorer.answers = [(200, text)]
    assert scored(scorer) == Scored(reward)


@pytest.mark.parametrize(
    "text",
    [
        "fine!", "[0.5]", "{}", '{"reward": null}', '{"reward": "0.5"}', '{"reward": NaN}', '{"reward": Infinity}',
        '{"reward": 1.5}', '{"reward": 1e400}', '{"reward": [1]}', '{"reward": 1, "comment": 7}',
        '{"reward": %s}' % ("9" * 400), '{"reward": %s}' % ("9" * 5000), "[" * 100_000,
    ],
)  # fmt: skip
def test_anything_else_is_refused_without_another_attempt(scorer: FakeScorer, text: str) -> None:
    scorer.answers = [(200, text)]
    with pytest.raises(ScorerAnswerError) as refused:
        scored(scorer)
    assert len(scorer.seen) == 1
    assert "fine!" not in str(refused.value)


def test_the_range_is_the_policys(scorer: FakeScorer) -> None:
    scorer.answers = [(200, '{"reward": 7}')]
    wanted = {"messages": MESSAGES, "answer": ANSWER, "trajectory_id": new_id()}
    assert score(settings_of(scorer), **wanted, smallest=0, largest=10).reward == 7
    with pytest.raises(ScorerAnswerError, match="from 0 to 5"):
        score(settings_of(scorer), **wanted, smallest=0, largest=5)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_scorer_that_cannot_answer_now_is_asked_again(scorer: FakeScorer, status: int) -> None:
    scorer.answers = [(status, "later"), (200, '{"reward": 1}')]
    assert scored(scorer).reward == 1
    assert len(scorer.seen) == 2


def test_attempts_are_bounded(scorer: FakeScorer) -> None:
    scorer.answers = [(503, "later")]
    with pytest.raises(ScorerUnreachableError, match="503"):
        scored(scorer, scorer_attempts=2)
    assert len(scorer.seen) == 2


@pytest.mark.parametrize("status", [201, 302, 400, 401, 404])
def test_a_status_that_another_attempt_does_not_mend_is_told_at_once(scorer: FakeScorer, status: int) -> None:
    scorer.answers = [(status, '{"reward": 1}')]
    with pytest.raises(ScorerAnswerError, match=str(status)):
        scored(scorer)
    assert len(scorer.seen) == 1


def test_a_scorer_that_drips_is_left_at_the_deadline(scorer: FakeScorer) -> None:
    """Each byte comes in time, the answer does not: it would take 15 s."""
    scorer.drip_seconds, scorer.answers = (
        0.3,
        [(200, '{"reward": 1, "comment": "a long word about the answer"}')],
    )
    with pytest.raises(ScorerUnreachableError, match="in time"):
        scored(scorer, scorer_timeout_seconds=0.7, scorer_attempts=1)


def test_an_endless_answer_is_not_read_to_its_end(scorer: FakeScorer) -> None:
    scorer.answers = [(200, '{"reward": 1, "comment": "' + "x" * (3 << 20) + '"}')]
    with pytest.raises(ScorerAnswerError, match="1 MiB"):
        scored(scorer)


def test_a_scorer_that_is_gone_is_told_without_the_key(scorer: FakeScorer) -> None:
    """B125, B126"""
    scorer.server.stop()
    with pytest.raises(ScorerUnreachableError, match=r"127\.0\.0\.1") as refused:
        scored(scorer, scorer_key=KEY, scorer_attempts=1)
    assert KEY not in str(refused.value) + repr(refused.value.__cause__)


@pytest.mark.parametrize(
    "url", ["http://me:secret@host/x", "http://host/x?token=secret", "ftp://host", "host:80"]
)
def test_an_address_holds_no_secret(scorer: FakeScorer, url: str) -> None:
    with pytest.raises(ValueError, match="scorer_url"):
        settings_of(scorer, scorer_url=url)


def test_what_is_no_json_in_a_clients_messages_is_null_for_the_scorer(scorer: FakeScorer) -> None:
    """B085. A lone surrogate is passed on as it was written."""
    odd = [{"role": "user", "content": "\ud800", "weight": float("nan")}]
    score(settings_of(scorer), messages=odd, answer=ANSWER, trajectory_id=new_id())
    assert scorer.seen[0]["messages"] == [{"role": "user", "content": "\ud800", "weight": None}]


def test_without_an_address_the_variable_is_named(scorer: FakeScorer) -> None:
    with pytest.raises(ScorerUnreachableError, match="SLIPSTREAM_SCORER_URL"):
        scored(scorer, scorer_url=None)
