"""/metrics shows training as the ledger has it: each step once, whenever it was read, and nothing before all is read."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.database import async_engine
from ledger.policies import Policy, ensure_policy
from ledger.workers import worker_started
from proxy import step_metrics
from proxy.step_metrics import StepMetrics
from tests.ledger import steps
from tests.ledger.steps import START
from tests.proxy.running import RunningProxy, eventually

AddStep = Callable[..., None]


@pytest.fixture
async def reading(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = async_engine(database_url, pool_size=1)
    yield engine
    await engine.dispose()


@pytest.fixture
def policy(engine: Engine) -> Policy:
    with engine.begin() as connection:
        return ensure_policy(connection, name="default", base_model="base-model")


@pytest.fixture
def add_step(engine: Engine) -> AddStep:
    def add(
        policy: Policy, version: int, state: str = "published", seconds: float = 0, **metrics: Any
    ) -> None:
        ended_at = START + timedelta(seconds=seconds or version * 3600)
        moments = {
            "created_at": ended_at - timedelta(seconds=10),
            "updated_at": ended_at,
            "finished_at": ended_at if state in {"published", "skipped", "failed"} else None,
        }
        with engine.begin() as connection:
            steps.add_step(connection, policy, version, state, metrics=metrics, **moments)

    return add


def shown(metrics: StepMetrics, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(metrics)
    return registry.get_sample_value(name, labels)


async def test_a_gauge_is_of_the_newest_step_that_has_the_figure(
    reading: AsyncEngine, policy: Policy, add_step: AddStep
) -> None:
    """B110, B113: a skipped step changes the reward that is shown; gradient norm and entropy stay the last version's."""
    metrics = StepMetrics()
    add_step(policy, 1, reward_mean=0.1, grad_norm=2.0, peak_memory_mib=3, loss=0.0)
    add_step(policy, 2, "skipped", reward_mean=0.9, loss=None)
    await metrics.look(reading)
    assert shown(metrics, "slipstream_step_reward_mean", policy="default") == 0.9
    assert shown(metrics, "slipstream_step_grad_norm", policy="default") == 2.0
    assert shown(metrics, "slipstream_step_loss", policy="default") == 0.0
    assert shown(metrics, "slipstream_step_peak_memory_bytes", policy="default") == 3 << 20
    assert shown(metrics, "slipstream_step_entropy", policy="default") is None
    name = "slipstream_step_finished_timestamp_seconds"
    assert shown(metrics, name, policy="default", state="published") == START.timestamp() + 3600


async def test_counters_add_up_over_all_steps_once(
    reading: AsyncEngine, policy: Policy, add_step: AddStep
) -> None:
    metrics = StepMetrics()
    add_step(policy, 1, tokens_used=5, tokens_dropped={"unscored": 2}, seconds_update=3, seconds_build=1)
    for _ in range(2):
        await metrics.look(reading)
    add_step(policy, 2, tokens_used=7, tokens_dropped={"unscored": 1, "too_stale": 4}, seconds_update=2)
    add_step(policy, 3, "failed", tokens_used=100)
    for _ in range(2):
        await metrics.look(reading)
    steps = {"policy": "default", "kind": "grpo"}
    assert shown(metrics, "slipstream_steps_total", state="published", **steps) == 2
    assert shown(metrics, "slipstream_steps_total", state="failed", **steps) == 1
    assert shown(metrics, "slipstream_trained_tokens_total", policy="default") == 12
    dropped = [
        shown(metrics, "slipstream_dropped_tokens_total", policy="default", reason=reason)
        for reason in ("unscored", "too_stale")
    ]
    assert dropped == [3, 4]
    seconds = [
        shown(metrics, "slipstream_phase_seconds_total", policy="default", phase=phase)
        for phase in ("update", "build", "waiting")
    ]
    assert seconds == [5, 1, 6 + 8 + 10]


async def test_a_step_whose_transaction_ended_late_is_counted(
    reading: AsyncEngine, policy: Policy, add_step: AddStep
) -> None:
    """Its clock says before what was read already; the newer one's figures stay."""
    metrics = StepMetrics()
    add_step(policy, 2, seconds=100, entropy=2.0)
    await metrics.look(reading)
    add_step(policy, 1, seconds=70, entropy=1.0)
    await metrics.look(reading)
    assert shown(metrics, "slipstream_steps_total", policy="default", kind="grpo", state="published") == 2
    assert shown(metrics, "slipstream_step_entropy", policy="default") == 2.0


async def test_a_long_past_is_read_in_parts_and_shown_when_all_is_read(
    reading: AsyncEngine, policy: Policy, add_step: AddStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that ended in the same moment are told apart by their ids."""
    monkeypatch.setattr(step_metrics, "AT_ONCE", 2)
    for version in range(1, 6):
        add_step(policy, version, seconds=50)
    metrics, seen = StepMetrics(), []
    whole = step_metrics.finished_steps

    def watched(*arguments: Any, **values: Any) -> Any:
        seen.append(
            shown(metrics, "slipstream_steps_total", policy="default", kind="grpo", state="published")
        )
        return whole(*arguments, **values)

    monkeypatch.setattr(step_metrics, "finished_steps", watched)
    await metrics.look(reading)
    assert seen == [None] * 3
    assert shown(metrics, "slipstream_steps_total", policy="default", kind="grpo", state="published") == 5


async def test_a_running_step_a_worker_and_a_pause_are_shown(
    reading: AsyncEngine, engine: Engine, policy: Policy, add_step: AddStep
) -> None:
    add_step(policy, 1, "built")
    with engine.begin() as connection:
        worker_started(connection, policy="default", base_model="base-model", owner="o", settings={})
        acme = ensure_policy(connection, name="default", base_model="base-model", project="acme")
        connection.execute(text("UPDATE policies SET paused_at = now() WHERE id = :id"), {"id": acme.id})
    metrics = StepMetrics()
    await metrics.look(reading)
    age = (datetime.now(UTC) - START).total_seconds() - 3600
    running = shown(metrics, "slipstream_step_running_seconds", policy="default", state="built")
    assert running == pytest.approx(age, abs=60)
    seen = shown(metrics, "slipstream_worker_seen_seconds", policy="default", base_model="base-model")
    assert seen is not None
    assert 0 <= seen < 60
    paused = [shown(metrics, "slipstream_paused", policy=line) for line in ("default", "acme@default")]
    assert paused == [0, 1]


async def test_what_was_read_stays_where_postgres_is_away(
    reading: AsyncEngine, policy: Policy, add_step: AddStep
) -> None:
    metrics = StepMetrics()
    add_step(policy, 1, entropy=1.0)
    await metrics.look(reading)
    gone = async_engine("postgresql://nobody@127.0.0.1:1/gone", pool_size=1)
    with pytest.raises((SQLAlchemyError, OSError)):
        await metrics.look(gone)
    await gone.dispose()
    assert shown(metrics, "slipstream_step_entropy", policy="default") == 1.0


def test_the_proxy_shows_what_was_trained_before_it_started(
    engine: Engine, policy: Policy, add_step: AddStep, start_proxy: Callable[..., RunningProxy]
) -> None:
    add_step(policy, 1, entropy=1.25)
    proxy = start_proxy()
    wanted = 'slipstream_step_entropy{policy="default"} 1.25'
    assert eventually(lambda: wanted in proxy.client.get("/metrics").text)
