"""`slipstream reward ID VALUE`: one judgement, and what became of it in words."""

import pytest
from click.testing import Result
from typer.testing import CliRunner

from slipstream.cli import app
from slipstream.errors import UsageError
from tests.proxy.running import RunningProxy


def judge(*words: str) -> Result:
    return CliRunner().invoke(app, ["reward", *words])


def test_the_command_says_what_is_recorded_and_why_it_does_not_count(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers below 0, true and false are values as any; an option that does not exist is still refused."""
    monkeypatch.setenv("SLIPSTREAM_URL", proxy.url)
    proxy.chat(headers={"X-Trajectory-Id": "run"})
    proxy.exchanges()
    assert judge("run", "-0.5").stdout == "Recorded: -0.5 for run.\n"
    assert judge("run", "true").stdout == "Recorded: true for run.\n"
    told = judge("run", "0.7", "--metric", "nope").stdout
    assert told.startswith("Recorded: 0.7 for run. It does not count, other_metric: Metric 'nope' is stored")
    assert judge("nobody", "false").stdout.startswith("nobody is not known yet: the reward of false waits")
    assert isinstance(judge("run", "good").exception, UsageError)
    assert judge("run", "1", "--metrc", "nope").exit_code != 0
    values = [row.value for row in proxy.rows("SELECT value FROM reward_events ORDER BY id")]
    assert values == [-0.5, 1.0, 0.7, 0.0]
