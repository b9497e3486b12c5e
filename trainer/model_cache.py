"""The loaded models between steps: loading takes longer than a step, so it is done once, and only when needed.

Invariant: a base model is in memory at most once. Of two policies on one base with adapters of different shapes, each
gets the base with its own; `PolicyModel.reset` does the rest, so the result does not depend on whose turn was before.
"""

from dataclasses import dataclass

from trainer.policy_model import LoraShape, PolicyModel, pick_device
from trainer.settings import TrainerSettings

BaseKey = tuple[str, str]  # model, device
AdapterKey = tuple[LoraShape, int]  # shape, seed


@dataclass(slots=True)
class _Loaded:
    adapter_key: AdapterKey
    model: PolicyModel


class ModelCache:
    """Holds at most `num_bases` base models: those of the last steps."""

    def __init__(self, num_bases: int = 1) -> None:
        self._num_bases = num_bases
        self._loaded: dict[BaseKey, _Loaded] = {}  # the longest unused first

    def get(self, settings: TrainerSettings) -> PolicyModel:
        """With an adapter of the settings' shape. A model that was given for another shape on the same base ends with this."""
        key = (settings.base_model, settings.device)
        shape, seed = LoraShape(settings.lora_rank, settings.lora_alpha), settings.seed
        found = self._loaded.pop(key, None)
        if found is None:
            self._make_room()
            found = _Loaded(
                (shape, seed),
                PolicyModel.load(settings.base_model, shape, seed, pick_device(settings.device)),
            )
        elif found.adapter_key != (shape, seed):
            found = _Loaded((shape, seed), found.model.with_shape(shape, seed))
        self._loaded[key] = found
        return found.model

    def _make_room(self) -> None:
        """Before the next is loaded: two may not fit."""
        while len(self._loaded) >= self._num_bases:
            self._loaded.pop(next(iter(self._loaded)))
