"""The models that a rank keeps between jobs: whole ones as in one process, or one that is split over all ranks.

Invariant: all ranks are asked for the same models in the same order, so those that are split are loaded by all together.
"""

import torch

from trainer.distributed.room import Start
from trainer.distributed.shards import load_in_turn
from trainer.model_cache import ModelCache
from trainer.policy_model import LoraShape, PolicyModel
from trainer.settings import TrainerSettings

Key = tuple[str, LoraShape, int]


class Held:
    def __init__(self, start: Start, device: torch.device) -> None:
        self._is_sharded = start.is_sharded
        self._device = device
        self._whole = ModelCache(start.loaded_models)
        self._split: tuple[Key, PolicyModel] | None = None

    def get(self, settings: TrainerSettings) -> PolicyModel:
        if not self._is_sharded:
            return self._whole.get(settings)
        key = settings.base_model, LoraShape(settings.lora_rank, settings.lora_alpha), settings.seed
        if self._split is None or self._split[0] != key:
            self._split = None  # free it before the next is loaded
            self._split = key, load_in_turn(*key, self._device)
        return self._split[1]
