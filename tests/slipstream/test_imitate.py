"""`slipstream sft` and `slipstream dpo`: what is asked for, and the rehearsal that needs no worker and no model."""

import json

import pytest
from sqlalchemy import Engine, text
from typer.testing import CliRunner

from ledger.errors import StepArgumentError
from ledger.vocabulary import StepKind
from slipstream.cli import app


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable that a command leaves in the environment outlives its test."""
    for name in ("REDIS_URL", "SLIPSTREAM_UPSTREAM_URLS", "SLIPSTREAM_BASE_MODEL"):
        monkeypatch.setenv(name, "")


def asked_for(engine: Engine) -> list[tuple[str, object]]:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT kind, arguments FROM v1.step_requests ORDER BY id"))
        return [(row.kind, row.arguments) for row in found]


def test_a_step_is_asked_for_with_what_was_said_and_nothing_else(run: CliRunner, engine: Engine) -> None:
    run.invoke(app, ["sft", "--from", "best", "--top", "0.5", "--epochs", "3"], catch_exceptions=False)
    run.invoke(app, ["dpo", "--beta", "0.2"], catch_exceptions=False)
    assert asked_for(engine) == [
        (StepKind.SFT, {"from": "best", "top": 0.5, "epochs": 3}), (StepKind.DPO, {"beta": 0.2})
    ]  # fmt: skip


def test_what_makes_no_sense_is_not_asked_for(run: CliRunner, engine: Engine) -> None:
    done = run.invoke(app, ["sft", "--from", "dreams"])
    assert isinstance(done.exception, StepArgumentError)
    assert asked_for(engine) == []


def test_a_rehearsal_counts_what_would_be_learned_from(run: CliRunner, engine: Engine) -> None:
    """learned.fill: four choices, each rewarded 1; a talk of one trajectory, rewarded -1. No tokenizer is needed."""
    done = run.invoke(app, ["sft", "--from", "best", "--min-reward", "1", "--dry-run", "--json"])
    found = json.loads(done.stdout)
    assert (found["kind"], found["reason"]) == ("sft", None)
    assert found["metrics"]["num_used_exchanges"] + sum(found["metrics"]["left_out"].values()) == 4
    shown = run.invoke(app, ["dpo", "--dry-run"]).stdout
    assert "There is no comparison of this policy" in shown
    assert asked_for(engine) == []
