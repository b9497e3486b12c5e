"""What becomes of a step whose attempt ended in an error: every kind of failure is recorded once, here.

Invariant: serving never notices; `live` has not moved.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError

from ledger.vocabulary import StepState
from trainer.claim import Step
from trainer.errors import (
    LeaseLostError,
    ReplicaRefusedError,
    ReplicaUnreachableError,
    StepStoppedError,
    SurroundingsError,
)
from trainer.settings import TrainerSettings
from trainer.transitions import give_up, to_failed

logger = structlog.get_logger()
LONGEST_WAIT_SECONDS = 60.0


@contextmanager
def settled(engine: Engine, settings: TrainerSettings, current: Callable[[], Step]) -> Iterator[None]:
    """Around an attempt: afterwards the step is finished, or waits with a reason for the tick that goes on."""
    try:
        yield
    except LeaseLostError:
        logger.warning("lease_lost", step_id=str(current().id), version=current().version)
    except (OperationalError, InterfaceError) as error:
        # Postgres is away: nothing can be written. The lease runs out, and this worker takes the step over again.
        logger.warning("ledger_unreachable", step_id=str(current().id), error=type(error).__name__)
    except StepStoppedError:
        _wait(engine, current(), None, 0.0)
    except SurroundingsError as error:
        _wait(engine, current(), str(error), settings.retry_seconds)
    except ReplicaUnreachableError as error:
        _wait_for_replica(engine, settings, current(), str(error))
    except ReplicaRefusedError as error:
        _count_refusal(engine, settings, current(), str(error))
    except Exception as error:  # noqa: BLE001 - whatever it was, it is the attempt's end, recorded with its step
        _count_attempt(engine, settings, current(), error)


def _wait(engine: Engine, step: Step, reason: str | None, seconds: float) -> None:
    with engine.begin() as connection:
        give_up(connection, step, reason, wait_seconds=seconds)
    logger.warning("step_waits", step_id=str(step.id), version=step.version, reason=reason, seconds=seconds)


def _wait_for_replica(engine: Engine, settings: TrainerSettings, step: Step, reason: str) -> None:
    waits = int(step.metrics.get("publish_waits", 0)) + 1
    seconds = min(settings.retry_seconds * 2 ** min(waits - 1, 10), LONGEST_WAIT_SECONDS)
    with engine.begin() as connection:
        give_up(connection, step, reason, wait_seconds=seconds, metrics={"publish_waits": waits})
    logger.warning("step_waits", step_id=str(step.id), version=step.version, reason=reason, seconds=seconds)


def _count_refusal(engine: Engine, settings: TrainerSettings, step: Step, reason: str) -> None:
    refusals = int(step.metrics.get("publish_refusals", 0)) + 1
    metrics = {"publish_refusals": refusals}
    if refusals >= settings.publish_attempts:
        _fail(engine, step, reason, metrics)
        return
    seconds = min(settings.retry_seconds * 2 ** (refusals - 1), LONGEST_WAIT_SECONDS)
    with engine.begin() as connection:
        give_up(connection, step, reason, wait_seconds=seconds, metrics=metrics)
    logger.warning("publish_refused", step_id=str(step.id), version=step.version, reason=reason)


def _count_attempt(engine: Engine, settings: TrainerSettings, step: Step, error: Exception) -> None:
    reason = f"{type(error).__name__}: {error}"
    logger.error("attempt_failed", step_id=str(step.id), attempt=step.attempt, exc_info=error)
    if step.attempt >= settings.step_attempts and step.state is not StepState.SAVED:
        _fail(engine, step, reason, {})
        return
    if step.state is StepState.SAVED:
        _count_refusal(engine, settings, step, reason)
        return
    with engine.begin() as connection:
        give_up(connection, step, reason, wait_seconds=settings.retry_seconds, is_counted=True)


def _fail(engine: Engine, step: Step, reason: str, metrics: dict[str, int]) -> None:
    try:
        with engine.begin() as connection:
            to_failed(connection, step, reason, dict(metrics))
    except LeaseLostError:  # the step is another worker's, and so is its outcome
        logger.warning("lease_lost", step_id=str(step.id), version=step.version)
        return
    logger.error("step_failed", step_id=str(step.id), version=step.version, reason=reason)
