"""Answers dry runs beside the training: a thread that looks for questions, and one that says that the worker lives.

Invariant: an error never ends them, no lock is held while a plan is computed, and none touches a model. One plan a look:
whoever asks often waits, and the training beside it does not.
"""

from collections.abc import Callable
from threading import Event, Thread
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DataError

from ledger.plans import answer_plan, forget_old_plans, waiting_plan
from ledger.workers import worker_seen
from trainer.plan import read_plan, reading
from trainer.policy_settings import trained_settings
from trainer.settings import TrainerSettings

logger = structlog.get_logger()
LOOK_SECONDS = 0.5
SEEN_SECONDS = 10.0


class Planner:
    """`run` blocks until `end()`."""

    def __init__(self, settings: TrainerSettings, engine: Engine) -> None:
        self._settings = settings
        self._trained = trained_settings(settings)
        self._engine = engine
        self._ended = Event()

    def run(self) -> None:
        """A plan may take a minute: the worker is seen to live all the same."""
        values = (self.be_seen, SEEN_SECONDS)
        seen = Thread(target=self._repeat, args=values, name="slipstream-seen", daemon=True)
        seen.start()
        self._repeat(self.answer_one, LOOK_SECONDS)
        seen.join()

    def answer_one(self) -> bool:
        """False if nobody asks."""
        with self._engine.begin() as connection:
            forget_old_plans(connection)
            question = waiting_plan(connection)
        if question is None:
            return False
        plan_id, project_id = question
        self._answer(plan_id, self._plan(project_id))
        return True

    def be_seen(self) -> None:
        with self._engine.begin() as connection:
            for own in self._trained:
                worker_seen(connection, policy=own.policy, base_model=own.base_model)

    def end(self) -> None:
        self._ended.set()

    def _plan(self, project_id: UUID) -> dict[str, Any]:
        try:
            with reading(self._engine) as snapshot:
                return read_plan(snapshot, self._settings, project_id)
        except Exception as error:
            logger.exception("plan_failed")
            return _failed(error)

    def _answer(self, plan_id: UUID, plan: dict[str, Any]) -> None:
        """What cannot be written is answered, too: whoever asked need not wait in vain."""
        try:
            with self._engine.begin() as connection:
                answer_plan(connection, plan_id, plan)
        except (DataError, TypeError, ValueError) as error:
            logger.exception("plan_unwritable")
            with self._engine.begin() as connection:
                answer_plan(connection, plan_id, _failed(error))

    def _repeat(self, work: Callable[[], object], seconds: float) -> None:
        while not self._ended.is_set():
            try:
                work()
            except Exception as error:  # noqa: BLE001 - Postgres is away, or stopping: the next look tries again
                logger.warning("planner_failed", error=type(error).__name__)
            self._ended.wait(seconds)


def _failed(error: Exception) -> dict[str, Any]:
    return {"object": "error", "message": f"The worker could not compute it: {type(error).__name__}."}
