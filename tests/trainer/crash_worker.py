"""A worker process that is killed with SIGKILL at a named point of a step. Run in a forkserver's child."""

import os
import signal
from collections.abc import Callable
from typing import Any

from ledger.database import sync_engine
from trainer import checkpoint, step, transitions, update
from trainer.model_cache import ModelCache
from trainer.replica import Replica
from trainer.settings import TrainerSettings

# (where, name): the process dies when this is called, so everything before it has happened.
POINTS: dict[str, tuple[Any, str, int]] = {
    "claimed, nothing built": (step, "snapshot", 1),
    "samples written, not committed": (transitions, "move", 1),
    "built, nothing updated": (step, "learn", 1),
    "in the middle of the batch": (update, "row_loss", 2),
    "updated, not saved": (checkpoint, "save", 1),
    "checkpoint renamed, adapter not": (checkpoint, "write_directory", 2),
    "adapter renamed, not recorded": (transitions, "to_saved", 1),
    "saved, no replica told": (step, "load_and_probe", 1),
    "loaded, not probed": (Replica, "probe", 1),
    "probed, live not moved": (transitions, "to_published", 1),
    "published": (step, "unload_old_versions", 1),
}


def dying(function: Callable[..., Any], calls_left: int) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls_left
        calls_left -= 1
        if calls_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return wrapper


def run_until_killed(point: str, values: dict[str, Any]) -> None:
    where, name, calls = POINTS[point]
    setattr(where, name, dying(getattr(where, name), calls))
    settings = TrainerSettings(**values)
    engine = sync_engine(settings.database_url)
    step.tick(step.Trainer(settings, engine, ModelCache(), owner=f"killed:{os.getpid()}"))
