"""The loaded model between steps: loading takes longer than a step, so it is done once, and only when needed."""

from trainer.policy_model import LoraShape, PolicyModel, pick_device
from trainer.settings import TrainerSettings

Key = tuple[str, LoraShape, int, str]


class ModelCache:
    """Holds one model: that of the last step."""

    def __init__(self) -> None:
        self._key: Key | None = None
        self._model: PolicyModel | None = None

    def get(self, settings: TrainerSettings) -> PolicyModel:
        shape = LoraShape(settings.lora_rank, settings.lora_alpha)
        key = (settings.base_model, shape, settings.seed, settings.device)
        if self._model is None or key != self._key:
            self._model = None  # free it before the next is loaded
            device = pick_device(settings.device)
            self._model = PolicyModel.load(settings.base_model, shape, settings.seed, device)
            self._key = key
        return self._model
