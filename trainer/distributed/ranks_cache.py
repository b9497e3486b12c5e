"""The ranks between steps, as trainer.model_cache keeps the models of one process."""

from trainer.distributed.ranks import Ranks
from trainer.settings import TrainerSettings


class RanksCache:
    def __init__(self) -> None:
        self._ranks: Ranks | None = None

    def get(self, settings: TrainerSettings) -> Ranks | None:
        """None where one process learns. They hold whichever model they are asked about."""
        if settings.processes == 1:
            return None
        self._ranks = self._ranks or Ranks(settings)
        return self._ranks

    def end(self) -> None:
        ranks, self._ranks = self._ranks, None
        if ranks is not None:
            ranks.end()
