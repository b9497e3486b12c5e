"""A worker that dies with SIGKILL within a step of sft or dpo. Run in a forkserver's child."""

import os
from typing import Any

from ledger.database import sync_engine
from tests.trainer.crash_worker import dying
from trainer import checkpoint, step, transitions
from trainer.imitation import learning as imitating
from trainer.model_cache import ModelCache
from trainer.preference import learning as preferring
from trainer.settings import TrainerSettings

POINTS: dict[str, tuple[Any, int]] = {
    "claimed, nothing built": ((step, "build_samples"), 1),
    "rows written, not committed": ((transitions, "move"), 1),
    "built, nothing learned": ((step, "update_and_save"), 1),
    "between two optimizer steps": ((imitating, "one_step"), 2),
    "between two optimizer steps of dpo": ((preferring, "one_step"), 2),
    "updated, not saved": ((checkpoint, "save"), 1),
    "adapter renamed, not recorded": ((transitions, "to_saved"), 1),
    "probed, live not moved": ((transitions, "to_published"), 1),
}


def run_until_killed(point: str, values: dict[str, Any]) -> None:
    (where, name), calls = POINTS[point]
    setattr(where, name, dying(getattr(where, name), calls))
    settings = TrainerSettings(**values)
    engine = sync_engine(settings.database_url)
    step.tick(step.Trainer(settings, engine, ModelCache(), owner=f"killed:{os.getpid()}"))
