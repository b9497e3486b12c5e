"""A base that does not fit one device: its layers' frozen weights split over the ranks by FSDP2.

Invariant: only weights inside layers are split. The adapter, the embedding and the head stay whole on each rank: the head's
weight is read outside of any module's forward, where nobody would gather it.
"""

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from trainer.errors import SurroundingsError
from trainer.policy_model import LoraShape, PolicyModel, load_base


def load_in_turn(path: str, shape: LoraShape, seed: int, device: torch.device) -> PolicyModel:
    """Each rank loads all, keeps its part, and lets the next one load: one whole base in the host's memory at a time."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for rank in range(dist.get_world_size()):
        if rank == dist.get_rank():
            model = PolicyModel(load_base(path, device), shape, seed, device)
            shard(model, path, mesh)
        dist.all_reduce(torch.zeros(1))  # my turn is over
    return model


def shard(model: PolicyModel, path: str, mesh: Any) -> None:
    base: Any = model.peft.get_base_model()
    layers = layers_of(base, path)
    inside = {parameter for layer in layers for parameter in layer.parameters()} - set(model.lora.values())
    whole = set(base.parameters()) - inside
    for module in (*layers, getattr(base, base.base_model_prefix)):
        fully_shard(module, mesh=mesh, reshard_after_forward=True, ignored_params=whole)
    base.to(model.device)
    model.memory_shape = replace(model.memory_shape, num_shards=mesh.size())


def layers_of(base: Any, path: str) -> list[Any]:
    """The modules that its makers say belong on one device whole. Raises SurroundingsError where they say nothing."""
    names = set(base._no_split_modules or ())  # noqa: SLF001 - transformers' own way to ask, as its FSDP integration does
    layers = [module for module in base.modules() if type(module).__name__ in names]
    if not layers:
        raise SurroundingsError(
            f"{path} does not say what its layers are, so it cannot be sharded: set SLIPSTREAM_TRAINER_SHARD=none"
        )
    return layers
