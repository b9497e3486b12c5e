"""The worker's own judging: a thread that waits for a word of Celery's, or for silence, and judges a few groups.

Invariant: it never holds up training. Celery's one process trains meanwhile; this thread waits for the child that asks
the judge, and for Postgres, and computes nothing. What it leaves unfinished at its end is the next one's (ADR 0016).
"""

from threading import Event, Thread

import structlog
from sqlalchemy import Engine

from ledger.database import sync_engine
from trainer.judge.model import JudgeModel
from trainer.judge.process import LitellmProcess
from trainer.judge.round import candidates_of_the_worker, judge_round
from trainer.judge.rubric import read_rubric
from trainer.judge.run import Judge
from trainer.judge.settings import JudgeSettings, JudgeWhen

logger = structlog.get_logger()
_END_SECONDS = 10.0


class JudgeThread:
    """`settings` None, or `off` in them: it does nothing."""

    def __init__(self, settings: JudgeSettings | None, silence_seconds: float) -> None:
        self._settings = settings
        self._silence_seconds = silence_seconds
        self._woken = Event()
        self._is_ending = False
        self._process = LitellmProcess()
        self._thread = Thread(target=self._run, name="slipstream-judge", daemon=True)

    def start(self) -> None:
        if self._settings is not None and self._settings.when is not JudgeWhen.OFF:
            self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def end(self) -> None:
        """A run that is being asked fails with the reason; its group is open to the next worker."""
        self._is_ending = True
        self._woken.set()
        self._process.stop()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        assert self._settings is not None
        engine = sync_engine(self._settings.database_url, pool_size=1)
        try:
            while True:
                self._woken.wait(self._silence_seconds)
                self._woken.clear()
                if self._is_ending:
                    break
                try:
                    self._round(engine, self._settings)
                except Exception:
                    logger.exception("judge_round_failed")
        finally:
            self._process.close()
            engine.dispose()

    def _round(self, engine: Engine, settings: JudgeSettings) -> None:
        group_ids = candidates_of_the_worker(engine, settings)
        if not group_ids:
            self._process.rest()
            return
        judge = Judge(settings, JudgeModel(settings, self._process), read_rubric(settings.rubric))
        for _ in judge_round(engine, judge, group_ids, lambda: self._is_ending):
            pass
