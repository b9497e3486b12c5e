"""Which sinks the settings ask for, started and ended with the worker."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread

import structlog
from sqlalchemy import Engine

from ledger.policies import Policy
from trainer.errors import SinkMissingError
from trainer.settings import TrainerSettings
from trainer.sinks.copying import HANG_SECONDS, Copying
from trainer.sinks.sink import Sink
from trainer.sinks.tensorboard import TensorBoardSink
from trainer.sinks.weights_and_biases import WandbSink

logger = structlog.get_logger()
# By the name of a sink, which is its extra's: what it imports, and what switches it on.
LIBRARIES = {
    "tensorboard": ("tensorboardX", "SLIPSTREAM_TENSORBOARD"),
    "wandb": ("wandb", "SLIPSTREAM_WANDB_PROJECT"),
}


def chosen_sinks(settings: TrainerSettings, is_installed: Callable[[str], bool] | None = None) -> list[Sink]:
    """Raises SinkMissingError, which says what to install, where a sink's library is not there."""
    is_there = is_installed or (lambda module: find_spec(module) is not None)
    sinks: list[Sink] = []
    if settings.tensorboard is not None:
        sinks.append(TensorBoardSink(settings.tensorboard))
    if settings.wandb_project is not None:
        sinks.append(WandbSink(settings.wandb_project, _wandb_folder(settings)))
    for sink in sinks:
        module, variable = LIBRARIES[sink.name]
        if not is_there(module):
            raise SinkMissingError(
                f"{variable} is set and {module} is not installed: pip install 'slipstream[{sink.name}]', or unset it"
            )
    return sinks


def _wandb_folder(settings: TrainerSettings) -> Path:
    """As W&B's own variable says, else beside the adapters."""
    given = os.environ.get("WANDB_DIR")
    return Path(given) if given else settings.adapters.parent / "wandb"


class Sinks:
    """All of them, and a watch that says once of each that it hangs."""

    def __init__(self, sinks: list[Sink], engine: Engine, learners: Callable[[], list[Policy]]) -> None:
        self.copying = [Copying(sink, engine, learners) for sink in sinks]
        self._ended = Event()
        self._told: set[str] = set()

    def start(self) -> None:
        for one in self.copying:
            one.start()
        if self.copying:
            Thread(target=self._watch, name="slipstream-sinks", daemon=True).start()

    def end(self) -> None:
        self._ended.set()
        for one in self.copying:
            one.end()

    def tell_hanging(self) -> None:
        for one in self.copying:
            name = one.sink.name
            if not one.hangs():
                self._told.discard(name)
            elif name not in self._told:
                self._told.add(name)
                logger.warning("sink_hangs", sink=name, seconds=HANG_SECONDS)

    def _watch(self) -> None:
        while not self._ended.wait(HANG_SECONDS / 2):
            self.tell_hanging()
