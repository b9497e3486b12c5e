"""The worker's own judging: a thread that waits for a word of Celery's, or for silence, and judges a few groups.

Invariant: it never holds up training. Celery's one process trains meanwhile; this thread waits for the child that asks
the judge, and for Postgres, and computes nothing. What it leaves unfinished at its end is the next one's (ADR 0016).
"""

from sqlalchemy import Engine

from ledger.database import sync_engine
from trainer.judge.model import JudgeModel
from trainer.judge.process import LitellmProcess
from trainer.judge.round import candidates_of_the_worker, judge_round
from trainer.judge.rubric import read_rubric
from trainer.judge.run import Judge
from trainer.judge.settings import JudgeSettings, JudgeWhen
from trainer.watch import Watch

_END_SECONDS = 10.0


class JudgeThread:
    """`settings` None, or `off` in them: it does nothing."""

    def __init__(self, settings: JudgeSettings | None, silence_seconds: float) -> None:
        self._settings = settings
        self._process = LitellmProcess()
        self._engine: Engine | None = None
        self._watch = Watch("judge", self._round, silence_seconds, self._close)

    def start(self) -> None:
        if self._settings is not None and self._settings.when is not JudgeWhen.OFF:
            self._engine = sync_engine(self._settings.database_url, pool_size=1)
            self._watch.start()

    def wake(self) -> None:
        self._watch.wake()

    def end(self) -> None:
        """A run that is being asked fails with the reason; its group is open to the next worker."""
        self._watch.is_over = True
        self._process.stop()
        self._watch.end(_END_SECONDS)

    def _close(self) -> None:
        self._process.close()
        if self._engine is not None:
            self._engine.dispose()

    def _round(self) -> None:
        settings, engine = self._settings, self._engine
        assert settings is not None
        assert engine is not None
        groups = candidates_of_the_worker(engine, settings)
        if not groups:
            self._process.rest()
            return
        judge = Judge(settings, JudgeModel(settings, self._process), read_rubric(settings.rubric))
        for _ in judge_round(engine, judge, groups, lambda: self._watch.is_over):
            pass
