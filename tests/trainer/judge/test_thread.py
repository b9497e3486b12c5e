"""The worker's own judging: off unless asked for, woken by Celery or by silence, ended in the middle of a run."""

from collections.abc import Callable, Iterator
from time import sleep
from typing import Any

import pytest
from sqlalchemy import Engine
from structlog.testing import capture_logs

from tests.fakes.judge import FakeJudge, scoring
from tests.proxy.running import eventually
from tests.trainer.judge.conftest import KEY
from tests.trainer.judge.talk import add_answers
from tests.trainer.traffic import begin_policy, one, rows
from trainer.judge.settings import JudgeSettings
from trainer.judge.thread import JudgeThread

STATES = "SELECT state FROM judge_runs ORDER BY created_at"


@pytest.fixture
def make_thread(engine: Engine, database_url: str, fake: FakeJudge) -> Iterator[Callable[..., JudgeThread]]:
    begin_policy(engine, "base")
    made: list[JudgeThread] = []

    def make(silence_seconds: float = 3600.0, **changes: Any) -> JudgeThread:
        values = {
            "database_url": database_url,
            "when": "open_groups",
            "model": "openai/gpt-4o",
            "base_url": fake.url,
            "api_key": KEY,
            "wait_seconds": 0,
        }
        made.append(JudgeThread(JudgeSettings(**(values | changes)), silence_seconds))
        made[-1].start()
        return made[-1]

    yield make
    for thread in made:
        thread.end()


def test_a_word_wakes_it_and_returns_at_once_and_a_second_one_judges_nothing_twice(
    engine: Engine, make_thread: Callable[..., JudgeThread]
) -> None:
    """The word is over before the judge has answered: a step may begin (B021, I8)."""
    add_answers(engine, ["good", "bad"])
    thread = make_thread()
    thread.wake()
    assert rows(engine, STATES) == []
    eventually(lambda: rows(engine, STATES) == [("finished",)], seconds=60)
    thread.wake()
    eventually(lambda: thread._process._process is None)  # it looked, and found nothing
    assert len(rows(engine, STATES)) == 1


def test_without_a_broker_it_looks_by_itself(engine: Engine, make_thread: Callable[..., JudgeThread]) -> None:
    add_answers(engine, ["good", "bad"])
    make_thread(silence_seconds=0.2)
    eventually(lambda: rows(engine, STATES) == [("finished",)], seconds=60)


def test_it_is_off_unless_asked_for(engine: Engine, make_thread: Callable[..., JudgeThread]) -> None:
    add_answers(engine, ["good", "bad"])
    thread = make_thread(silence_seconds=0.05, when="off")
    thread.wake()
    sleep(0.5)
    assert rows(engine, STATES) == []
    assert not thread._watch._thread.is_alive()
    JudgeThread(None, 0.05).start()


def test_judging_without_a_judge_is_no_setting(database_url: str) -> None:
    with pytest.raises(ValueError, match="SLIPSTREAM_JUDGE_MODEL"):
        JudgeSettings(database_url=database_url, when="open_groups")


def test_ended_while_it_asks_it_says_so_in_the_run_and_ends_soon(
    engine: Engine, fake: FakeJudge, make_thread: Callable[..., JudgeThread]
) -> None:
    add_answers(engine, ["good", "bad"])
    fake.hangs = True
    thread = make_thread()
    thread.wake()
    eventually(lambda: fake.asked, seconds=60)
    thread.end()
    assert not thread._watch._thread.is_alive()
    (run,) = rows(engine, "SELECT state, reason FROM judge_runs")
    assert (run.state, run.reason) == ("failed", "the judge was stopped")


def test_a_round_takes_a_bounded_number_of_groups(
    engine: Engine, make_thread: Callable[..., JudgeThread]
) -> None:
    for _ in range(3):
        add_answers(engine, ["good", "bad"])
    thread = make_thread(groups_per_tick=2)
    for expected in (2, 3):
        thread.wake()
        eventually(lambda expected=expected: rows(engine, STATES) == [("finished",)] * expected, seconds=60)


def test_a_round_that_fails_is_logged_and_the_next_one_tries_again(
    engine: Engine, fake: FakeJudge, make_thread: Callable[..., JudgeThread], tmp_path: Any
) -> None:
    add_answers(engine, ["good", "bad"])
    rubric = tmp_path / "rubric.txt"
    with capture_logs() as logs:
        thread = make_thread(rubric=rubric)
        thread.wake()
        eventually(lambda: [line for line in logs if line["event"] == "watch_failed"])
        rubric.write_text("Short beats long.")
        thread.wake()
        eventually(lambda: rows(engine, STATES) == [("finished",)], seconds=60)
    assert "Short beats long." in fake.asked[0].body["messages"][0]["content"]


def test_two_workers_judge_a_group_once(
    engine: Engine, fake: FakeJudge, make_thread: Callable[..., JudgeThread]
) -> None:
    for _ in range(3):
        add_answers(engine, ["good", "bad"])
    fake.answers = [scoring(lambda _: 0.5)]
    for thread in [make_thread(), make_thread()]:
        thread.wake()
    eventually(lambda: rows(engine, STATES) == [("finished",)] * 3, seconds=90)
    assert len(fake.asked) == 3
    assert one(engine, "SELECT count(*) FROM reward_events") == 6
