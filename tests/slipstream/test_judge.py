"""`slipstream judge`, as it is typed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from structlog.testing import capture_logs
from typer.testing import CliRunner

from ledger.policies import ensure_policy
from slipstream.cli import app
from tests.fakes.judge import FakeJudge, running_fake_judge, same, scores
from tests.fakes.scorer import running_fake_scorer
from tests.proxy.running import eventually
from tests.trainer.judge.talk import add_answers
from tests.trainer.traffic import one, rows
from trainer.judge.process import LitellmProcess

KEY = "sk-canary-judge-5d41402abc4b2a76"
STATES = "SELECT state FROM judge_runs ORDER BY id"


class _Lasting(LitellmProcess):
    """Importing LiteLLM takes seconds: one process for all commands that tests run in this one."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def litellm() -> Iterator[LitellmProcess]:
    process = _Lasting()
    yield process
    LitellmProcess.close(process)


@pytest.fixture(autouse=True)
def shared(litellm: LitellmProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.judge.process.LitellmProcess", lambda: litellm)


@pytest.fixture
def fake() -> Iterator[FakeJudge]:
    with running_fake_judge() as running:
        yield running


@pytest.fixture
def run(
    database_url: str,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake: FakeJudge,
) -> Iterator[CliRunner]:
    values = {
        "DATABASE_URL": database_url,
        "SLIPSTREAM_HOME": str(tmp_path),
        "SLIPSTREAM_JUDGE_MODEL": "openai/gpt-4o",
        "SLIPSTREAM_JUDGE_BASE_URL": fake.url,
        "SLIPSTREAM_JUDGE_API_KEY": KEY,
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="base")
    with capture_logs():  # they go to stderr where `slipstream` is a process of its own
        yield CliRunner()


def test_it_judges_the_open_groups_and_says_what_came_out(
    run: CliRunner, engine: Engine, fake: FakeJudge
) -> None:
    group_id, (good, bad) = add_answers(engine, ["good", "bad"])
    done = run.invoke(app, ["judge", "--json"])
    (found,) = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (found["group"], found["state"], found["scored"], found["calls"]) == (
        str(group_id),
        "finished",
        2,
        1,
    )
    assert found["rewards"] == {str(good): 1.0, str(bad): -1.0}
    assert run.invoke(app, ["judge"]).stdout == "No open group has members that nobody scored.\n"
    assert len(fake.asked) == 1


def test_a_group_is_named_by_its_id_or_its_key_and_is_then_judged_again(
    run: CliRunner, engine: Engine, fake: FakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["good", "bad"])
    key = one(engine, "SELECT key FROM groups")
    for name in (str(group_id), key):
        assert json.loads(run.invoke(app, ["judge", name, "--json"]).stdout)[0]["state"] == "finished"
    assert len(fake.asked) == 2
    unknown = run.invoke(app, ["judge", "nobody"])
    assert "No group has the id or the key 'nobody'" in str(unknown.exception)


def test_a_dry_run_says_size_and_cost_and_asks_nobody(
    run: CliRunner, engine: Engine, fake: FakeJudge
) -> None:
    add_answers(engine, ["good", "bad"])
    (planned,) = json.loads(run.invoke(app, ["judge", "--dry-run", "--votes", "3", "--json"]).stdout)
    assert (planned["state"], planned["members"], planned["to_score"]) == ("planned", 2, 2)
    assert planned["characters"] > 1000
    assert 0 < planned["cost"] < planned["most_cost"] < 1
    assert fake.asked == []
    assert rows(engine, STATES) == []


def test_a_failed_run_is_an_exit_code(run: CliRunner, engine: Engine, fake: FakeJudge) -> None:
    add_answers(engine, ["good", "bad"])
    fake.answers = [same("I cannot decide.")]
    done = run.invoke(app, ["judge"])
    assert done.exit_code == 1
    assert "no JSON object" in done.stdout


def test_a_rubric_comes_from_a_file(run: CliRunner, engine: Engine, fake: FakeJudge, tmp_path: Path) -> None:
    add_answers(engine, ["good", "bad"])
    (tmp_path / "rubric.txt").write_text("Short beats long.")
    run.invoke(app, ["judge", "--rubric", str(tmp_path / "rubric.txt")])
    assert "Short beats long." in fake.asked[0].body["messages"][0]["content"]
    gone = run.invoke(app, ["judge", "--rubric", str(tmp_path / "gone.txt")])
    assert "cannot be read" in str(gone.exception)


def test_without_a_model_the_variable_is_named(run: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLIPSTREAM_JUDGE_MODEL")
    assert "SLIPSTREAM_JUDGE_MODEL" in str(run.invoke(app, ["judge"]).exception)


def test_a_policy_may_be_named(run: CliRunner, engine: Engine) -> None:
    add_answers(engine, ["good", "bad"])
    assert json.loads(run.invoke(app, ["judge", "--policy", "other", "--json"]).stdout) == []
    assert len(json.loads(run.invoke(app, ["judge", "--policy", "default", "--json"]).stdout)) == 1


def test_the_operators_scorer_rewards_who_nobody_scored(run: CliRunner, engine: Engine) -> None:
    """Half of the way is stored; what was refused is told, and scored by the next try."""
    add_answers(engine, ["good", "bad"])
    with running_fake_scorer() as scorer:
        scorer.answers = [(200, '{"reward": 1, "comment": "fine"}'), (200, '{"reward": "high"}')]
        done = run.invoke(app, ["judge", "--scorer", scorer.url, "--json"])
        assert done.exit_code == 1
        assert (
            json.loads(done.stdout)[0]["reason"]
            == 'The scorer\'s "reward" is neither a number nor true or false.'
        )
        assert scorer.seen[0]["answer"] == {"role": "assistant", "content": "good"}
        assert [message["role"] for message in scorer.seen[0]["messages"]] == ["system", "user"]
        scorer.answers = [(200, '{"reward": 0}')]
        assert run.invoke(app, ["judge", "--scorer", scorer.url]).exit_code == 0
    events = rows(engine, "SELECT value, comment, source FROM reward_events ORDER BY trajectory_id")
    assert [tuple(row) for row in events] == [(1.0, "fine", "scorer"), (0.0, None, "scorer")]
    assert rows(engine, STATES) == []


def test_killed_between_the_judges_answer_and_its_scores_it_leaves_none_and_the_next_run_scores_once(
    run: CliRunner, engine: Engine, fake: FakeJudge
) -> None:
    """kill -9 while the second vote is asked for: the first vote's answer is lost, and nothing else."""
    group_id, _ = add_answers(engine, ["good", "bad"])
    fake.hangs = True
    command = [sys.executable, "-m", "slipstream", "judge", "--votes", "2"]
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL)
    eventually(lambda: fake.asked, seconds=60)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert [row.state for row in rows(engine, STATES)] == ["running"]
    assert one(engine, "SELECT count(*) FROM reward_events") == 0
    fake.hangs = False
    assert json.loads(run.invoke(app, ["judge", str(group_id), "--json"]).stdout)[0]["state"] == "nothing"
    with engine.begin() as connection:
        connection.execute(text("UPDATE judge_runs SET expires_at = now() - INTERVAL '1 second'"))
    assert run.invoke(app, ["judge"]).exit_code == 0
    assert [row.state for row in rows(engine, STATES)] == ["failed", "finished"]
    assert one(engine, "SELECT count(*) FROM reward_events") == 2
    buried = rows(engine, "SELECT * FROM judge_runs WHERE state = 'failed'")[0]
    assert "its process ended" in buried.reason
    assert buried.num_completion_tokens == 4 * 4096  # what it had reserved: two votes of two calls


def test_a_keyboard_interrupt_ends_the_run(run: CliRunner, engine: Engine, fake: FakeJudge) -> None:
    add_answers(engine, ["good", "bad"])
    fake.hangs = True
    process = subprocess.Popen([sys.executable, "-m", "slipstream", "judge"], env=os.environ)
    eventually(lambda: fake.asked, seconds=60)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert [row.state for row in rows(engine, STATES)] == ["failed"]


def test_no_key_is_in_what_it_prints(run: CliRunner, engine: Engine, fake: FakeJudge) -> None:
    """B125, B126: the provider repeats it."""
    add_answers(engine, ["good", "bad"])
    told = {
        "error": {"message": f"Incorrect API key provided: {KEY}", "type": "x", "code": "invalid_api_key"}
    }
    fake.answers = [lambda _: (401, told)]
    done = run.invoke(app, ["judge"])
    assert done.exit_code == 1
    assert "SLIPSTREAM_JUDGE_API_KEY" in done.stdout
    assert KEY not in done.output
    assert fake.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_scores_of_a_judge_that_answers_with_other_shapes_are_read(
    run: CliRunner, engine: Engine, fake: FakeJudge
) -> None:
    add_answers(engine, ["good", "bad"])
    fake.answers = [lambda asked: f"```json\n{scores(**dict.fromkeys(asked.attempts, 1))}\n```"]
    assert run.invoke(app, ["judge"]).exit_code == 0


def test_status_says_what_judging_did_and_why_it_was_refused(run: CliRunner, engine: Engine) -> None:
    assert "judge runs" not in run.invoke(app, ["status"]).stdout
    add_answers(engine, ["good", "bad"])
    run.invoke(app, ["judge"])
    judged = json.loads(run.invoke(app, ["status", "--json"]).stdout)["policies"]["default"]["judged"]
    assert (judged["by_state"], judged["num_tokens"], judged["newest_reasons"]) == ({"finished": 1}, 120, {})
    assert judged["cost"] == pytest.approx(100 * 2.5e-6 + 20 * 1e-5)  # gpt-4o's price for 100 and 20 tokens
    add_answers(engine, ["good", "bad"])
    refused = run.invoke(app, ["judge"], env={"SLIPSTREAM_JUDGE_BUDGET": "0.0001"})
    assert refused.exit_code == 1
    shown = run.invoke(app, ["status"]).stdout
    assert "1 finished, 1 refused; 0.000" in shown
    assert "US dollars, 120 tokens" in shown
    assert "newest refused: the budget of 0.0001 US dollars in 24 hours is spent" in shown
