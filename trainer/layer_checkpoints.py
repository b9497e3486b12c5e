"""Gradient checkpointing, switched on and off between rows: a layer keeps its input alone and is computed again backwards.

Not transformers' own: that one drops the keys and values of a stem. Each layer is computed twice from the same numbers, so the
gradients are the same to the bit.
"""

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


class LayerCheckpoints:
    """Of one network."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.is_on = False
        module: Any
        for module in network.modules():
            if isinstance(module, GradientCheckpointingLayer):
                vars(module).pop("forward", None)  # an adapter of another shape was here before
                module.forward = partial(self._forward, module.forward)

    def _forward(self, plain: Any, *inputs: Any, **told: Any) -> Any:
        if not self.is_on or not torch.is_grad_enabled():
            return plain(*inputs, **told)
        return checkpoint(plain, *inputs, use_reentrant=False, preserve_rng_state=False, **told)
