"""`slipstream train --now`, `pause` and `resume`: on the ledger, without broker; a worker's part is played here."""

import json
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Engine, text
from typer.testing import CliRunner

from ledger.errors import LedgerError, StepArgumentError
from ledger.identifiers import new_id
from ledger.pauses import find_learners
from ledger.policies import ensure_policy
from ledger.step_requests import end_request_of, next_request, refuse_request, take_request
from ledger.vocabulary import StepKind
from slipstream.cli import app
from slipstream.commands.asking import ask_for_step
from slipstream.errors import NoVersionError, SlipstreamError, UsageError
from tests.proxy.running import eventually

BEGIN = text(
    "INSERT INTO training_steps (id, policy_id, version, parent_version, state, seed, settings)"
    " VALUES (:id, :policy_id, 7, 1, :state, 0, '{}')"
)


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")


class Worker:
    """Takes the next request, and ends it as it is told."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread: Thread | None = None

    def will_end_it(self, state: str, reason: str | None = None) -> None:
        self._thread = Thread(target=eventually, args=(lambda: self._end(state, reason),), daemon=True)
        self._thread.start()

    def _end(self, state: str, reason: str | None) -> bool:
        with self._engine.begin() as connection:
            policy_id = find_learners(connection, "default", "default")[0].id
            request = next_request(connection, policy_id)
            if request is None:
                return False
            if state == "refused":
                refuse_request(connection, request.id, reason or "")
                return True
            step_id = new_id()
            connection.execute(BEGIN, {"id": step_id, "policy_id": policy_id, "state": state})
            take_request(connection, request.id, step_id)
            end_request_of(connection, step_id, reason)
            return True

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(20)


@pytest.fixture
def worker(engine: Engine) -> Iterator[Worker]:
    playing = Worker(engine)
    yield playing
    playing.join()


def requests(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(
            connection.execute(text("SELECT kind, arguments, state FROM v1.step_requests ORDER BY id"))
        )


def test_a_step_is_asked_for_also_where_the_broker_is_away(run: CliRunner, engine: Engine) -> None:
    done = run.invoke(app, ["train", "--now", "--skip-grace", "--json"])
    assert done.exit_code == 0, done.output
    asked = json.loads(done.stdout)
    assert (asked["policy"], asked["state"]) == ("default", "waiting")
    assert requests(engine) == [("grpo", {"skip_grace": True}, "waiting")]
    assert "The broker does not take the tick" in done.stderr


def test_whoever_waits_is_told_which_version_came(run: CliRunner, worker: Worker) -> None:
    worker.will_end_it("published")
    done = run.invoke(app, ["train", "--now", "--wait"])
    assert (done.exit_code, done.stdout) == (0, "Step 7 of default/default is published\n")


@pytest.mark.parametrize("state", ["skipped", "failed", "refused"])
def test_whoever_waits_is_told_why_no_version_came(run: CliRunner, worker: Worker, state: str) -> None:
    worker.will_end_it(state, "Post some rewards.")
    done = run.invoke(app, ["train", "--now", "--wait"])
    assert isinstance(done.exception, NoVersionError)
    assert "Post some rewards." in str(done.exception)


def test_whoever_waits_too_long_is_told_that_it_goes_on(run: CliRunner, engine: Engine) -> None:
    done = run.invoke(app, ["train", "--now", "--wait", "--seconds", "0.1"])
    assert isinstance(done.exception, SlipstreamError)
    assert "goes on by itself" in str(done.exception)
    assert [state for _, _, state in requests(engine)] == ["waiting"]


def test_of_several_policies_one_is_named(run: CliRunner, engine: Engine) -> None:
    with engine.begin() as connection:
        ensure_policy(connection, name="support", base_model="base")
    refused = run.invoke(app, ["train", "--now"])
    assert "--policy with one of default, support" in str(refused.exception)
    assert run.invoke(app, ["train", "--now", "--policy", "support"]).exit_code == 0
    assert isinstance(run.invoke(app, ["train", "--now", "--policy", "x"]).exception, LedgerError)
    assert len(requests(engine)) == 1


@pytest.mark.parametrize("options", [["--dry-run", "--now"], ["--wait"], ["--skip-grace"], ["--policy", "a"]])
def test_options_that_do_not_go_together_are_refused(run: CliRunner, options: list[str]) -> None:
    assert isinstance(run.invoke(app, ["train", *options]).exception, UsageError)


def test_what_a_kind_does_not_take_is_not_asked_for(run: CliRunner, engine: Engine) -> None:
    assert run is not None
    with pytest.raises(StepArgumentError, match="nothing that a dpo step takes"):
        ask_for_step(StepKind.DPO, {"skip_grace": True}, policy=None, wait_seconds=None, as_json=False)
    assert requests(engine) == []


def test_a_pause_is_shown_with_its_reason_and_ends_with_resume(run: CliRunner) -> None:
    done = run.invoke(app, ["pause", "--policy", "default", "--reason", "The rewards look odd."])
    assert "paused since" in done.stdout
    assert "The rewards look odd." in done.stdout
    [found] = json.loads(run.invoke(app, ["pause", "--json"]).stdout)
    assert (found["policy"], found["paused_reason"]) == ("default", None)
    assert "learns" in run.invoke(app, ["resume"]).stdout
    assert isinstance(run.invoke(app, ["pause", "--policy", "x"]).exception, LedgerError)
