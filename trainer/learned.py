"""What an update made, apart from the model that made it: everything that is saved, on the CPU.

Invariant (I9): the same parent, samples and settings make the same `Learned`, whichever process or processes computed it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor

from trainer.grpo.samples import Sample
from trainer.parent import Parent
from trainer.policy_model import PolicyModel
from trainer.probe import make_probe
from trainer.settings import TrainerSettings
from trainer.update import update


@dataclass(frozen=True, slots=True)
class Learned:
    """`adapter`: lora_A and lora_B by name; `config`: as peft writes it; `moments`: the optimizer's, by parameter."""

    adapter: dict[str, Tensor]
    config: dict[str, Any]
    moments: dict[str, Tensor]
    optimizer_step: int
    probe: dict[str, Any]
    metrics: dict[str, Any]


def learn(
    model: PolicyModel,
    parent: Parent,
    samples: Sequence[Sample],
    settings: TrainerSettings,
    between_rows: Callable[[], None] = lambda: None,
) -> Learned:
    """From the parent, once, with all samples. Raises as `update` does; the parent is then as it was."""
    model.reset(parent.adapter, parent.moments)
    optimizer_step = parent.optimizer_step + 1
    metrics = update(model, samples, settings, optimizer_step=optimizer_step, between_rows=between_rows)
    return learned_of(model, settings.base_model, optimizer_step, metrics)


def learned_of(model: PolicyModel, base_model: str, optimizer_step: int, metrics: dict[str, Any]) -> Learned:
    """What the model now holds."""
    return Learned(
        adapter=model.adapter_state(),
        config=adapter_config(model, base_model),
        moments=model.optimizer_state(),
        optimizer_step=optimizer_step,
        probe=make_probe(model),
        metrics=metrics,
    )


def adapter_config(model: PolicyModel, base_model: str) -> dict[str, Any]:
    """adapter_config.json. Sets are sorted: the same bytes each time."""
    config = {key: _plain(value) for key, value in model.peft.peft_config["default"].to_dict().items()}
    config |= {"base_model_name_or_path": base_model, "inference_mode": True}
    return config | {"target_modules": model.target_modules}


def _plain(value: Any) -> Any:
    if isinstance(value, set):
        return sorted(value)
    return value.value if isinstance(value, Enum) else value
