"""`slipstream train --dry-run`: the plan, computed without worker, broker or model."""

import json
import subprocess
import sys

import pytest
from sqlalchemy import Engine, text
from typer.testing import CliRunner

from ledger.workers import worker_started
from slipstream.cli import app
from slipstream.errors import UsageError
from trainer.settings import TrainerSettings


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable that a command leaves in the environment outlives its test."""
    for name in ("REDIS_URL", "SLIPSTREAM_UPSTREAM_URLS", "SLIPSTREAM_BASE_MODEL"):
        monkeypatch.setenv(name, "")


def tell_of_a_worker(engine: Engine, **changes: object) -> None:
    settings = TrainerSettings(
        database_url="postgresql://x", redis_url="redis://x", upstream_urls="http://x", base_model="base"
    )
    told = settings.planning() | {"group_grace_seconds": 0.0} | changes
    with engine.begin() as connection:
        worker_started(connection, policy="default", base_model="base", owner="w", settings=told)


def test_a_plan_needs_no_broker_and_no_worker(run: CliRunner, engine: Engine) -> None:
    """learned.fill: four choices of version 1, each rewarded 1; a talk of one trajectory, rewarded -1."""
    tell_of_a_worker(engine)
    done = run.invoke(app, ["train", "--dry-run", "--json"])
    [plan] = json.loads(done.stdout)["policies"]
    assert [(group["kind"], group["num_scored"]) for group in plan["groups"]] == [("choices", 4)]
    assert plan["totals"]["left_out"] == {"no_variance": {"num_exchanges": 4, "num_tokens": 12}}
    assert (plan["totals"]["num_used"], plan["num_groups_needed"]) == (0, 7)
    assert [group["waits_for"] for group in plan["not_ready"]] == [["baseline"]]
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM plans")) == 0


def test_a_plan_is_readable(run: CliRunner, engine: Engine) -> None:
    tell_of_a_worker(engine, step_groups=1, step_min_tokens=0)
    shown = run.invoke(app, ["train", "--dry-run"]).stdout
    assert "policy default/default: version 1 is live; the next tick begins a step." in shown
    assert "in all: 0 of 4 exchanges, 0 tokens" in shown
    assert "no_variance" in shown
    assert "baseline" in shown


def test_what_the_worker_told_comes_before_the_settings_of_this_environment(
    run: CliRunner, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that names the base model, but not what only the worker is given."""
    tell_of_a_worker(engine, step_groups=5, baseline_min_samples=7)
    monkeypatch.setenv("SLIPSTREAM_BASE_MODEL", "base")
    monkeypatch.setenv("SLIPSTREAM_STEP_GROUPS", "3")
    [plan] = json.loads(run.invoke(app, ["train", "--dry-run", "--json"]).stdout)["policies"]
    assert (plan["settings_of"], plan["worker"]["step_groups"], plan["num_groups_needed"]) == ("worker", 5, 4)
    assert plan["worker"]["baseline_min_samples"] == 7
    assert (
        "settings that its newest worker was started with" in run.invoke(app, ["train", "--dry-run"]).stdout
    )


def test_where_no_worker_told_of_itself_the_settings_of_this_environment_count(
    run: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTREAM_BASE_MODEL", "base")
    monkeypatch.setenv("SLIPSTREAM_STEP_GROUPS", "3")
    [plan] = json.loads(run.invoke(app, ["train", "--dry-run", "--json"]).stdout)["policies"]
    assert (plan["settings_of"], plan["worker"]["step_groups"]) == ("environment", 3)
    assert "settings of this environment: no worker" in run.invoke(app, ["train", "--dry-run"]).stdout


def test_a_policy_that_nobody_trains_is_listed_as_such(run: CliRunner) -> None:
    assert "no worker was ever started" in run.invoke(app, ["train", "--dry-run"]).stdout
    assert isinstance(run.invoke(app, ["train", "--json"]).exception, UsageError)


def test_a_plan_is_computed_where_torch_is_not_installed() -> None:
    """As in the proxy's image, from which docs/compose.md runs commands."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'numpy', 'safetensors', 'transformers', 'peft')));"
        "import trainer.plan, trainer.settings, slipstream.commands.train"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
