"""Checkpoints: an adapter, the optimizer's state, and what made them. Only safetensors and JSON, never pickle.

NAME@n lies in two directories: the adapter (servable, renamed last) and the checkpoint (optimizer.safetensors,
state.json). Invariant: where the adapter has its name, its checkpoint is complete.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ledger.policies import adapter_name
from trainer.adapter_files import (
    CONFIG,
    WEIGHTS,
    check_adapter,
    check_config,
    check_tensors,
    sha256_of,
    write_directory,
)
from trainer.claim import Step
from trainer.errors import AdapterRefusedError, BatchError, CheckpointError, SurroundingsError
from trainer.learned import Learned
from trainer.parent import Parent
from trainer.schedule import scheduler_state
from trainer.settings import TrainerSettings

OPTIMIZER = "optimizer.safetensors"
PRUNED = "optimizer.pruned"  # empty, in the place of one that trainer.pruning took away
STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Saved:
    """A version on disk: its name below the adapters' root, the digest of its weights, and its state.json."""

    name: str
    directory: Path
    sha256: str
    state: dict[str, Any]


def read_parent(settings: TrainerSettings, line: str, version: int) -> Parent:
    """Without moments where they were pruned. Raises CheckpointError where a file is missing or damaged."""
    if version == 0:
        return Parent()
    name = adapter_name(line, version)
    try:
        state = _read_state(settings, name)
        adapter = check_adapter(settings.adapters / name, state["adapter_sha256"])
        if (settings.checkpoints_root / name / PRUNED).exists():
            return Parent(adapter, None, state["optimizer_step"])
        content = (settings.checkpoints_root / name / OPTIMIZER).read_bytes()
        moments = load_safetensors(content) or None  # none yet: no grpo step came before
    except (AdapterRefusedError, OSError, KeyError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"the checkpoint of {name} cannot be read: {error}") from error
    if sha256_of(content) != state["optimizer_sha256"]:
        raise CheckpointError(f"the checkpoint of {name} has changed since it was saved")
    return Parent(adapter, moments, state["optimizer_step"])


def find_saved(settings: TrainerSettings, line: str, step: Step) -> Saved | None:
    """What an earlier attempt of this very step has saved. Raises BatchError if the name is another's."""
    name = adapter_name(line, step.version)
    if not (settings.adapters / name).exists():
        return None
    try:
        saved = read_saved(settings, line, step.version)
        check_adapter(saved.directory, saved.sha256)
    except (AdapterRefusedError, CheckpointError) as error:
        raise BatchError(f"{name} exists and is damaged, and a name is never used again: {error}") from error
    if saved.state["step_id"] != str(step.id):
        raise BatchError(f"{name} was made by step {saved.state['step_id']}, and a name is never used again")
    return saved


def read_saved(settings: TrainerSettings, line: str, version: int) -> Saved:
    name = adapter_name(line, version)
    try:
        state = _read_state(settings, name)
        return Saved(name, settings.adapters / name, state["adapter_sha256"], state)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"the checkpoint of {name} cannot be read: {error}") from error


def save(
    settings: TrainerSettings, line: str, step: Step, learned: Learned, made_from: dict[str, Any]
) -> Saved:
    """Write checkpoint, then adapter. `made_from`: chance and data position, as state.json tells them.

    Raises SurroundingsError if the disk does not take them.
    """
    name = adapter_name(line, step.version)
    adapter, optimizer = adapter_files(learned.adapter, learned.config), save_safetensors(learned.moments)
    state: dict[str, Any] = {
        "step_id": str(step.id),
        "version": step.version,
        "parent_version": step.parent_version,
        "optimizer_step": learned.optimizer_step,
        "seed": step.seed,
        "scheduler": scheduler_state(settings, learned.optimizer_step),
        **made_from,
        "settings": step.settings,
        "adapter_sha256": sha256_of(adapter[WEIGHTS]),
        "optimizer_sha256": sha256_of(optimizer),
        "probe": learned.probe,
    }
    checkpoint = settings.checkpoints_root / name
    mark = f"{step.id.hex}.{step.fencing_token}"
    try:
        shutil.rmtree(checkpoint, ignore_errors=True)  # without its adapter it has no name yet
        write_directory(checkpoint, {OPTIMIZER: optimizer, STATE: _as_json(state)}, mark)
        write_directory(settings.adapters / name, adapter, mark)
    except OSError as error:
        raise SurroundingsError(
            f"{name} cannot be saved below {settings.adapters} and {settings.checkpoints_root}: {error}"
        ) from error
    return Saved(name, settings.adapters / name, state["adapter_sha256"], state)


def adapter_files(tensors: dict[str, Tensor], config: dict[str, Any]) -> dict[str, bytes]:
    """An adapter as peft writes it, checked before it gets a name."""
    try:
        check_config(config)
        check_tensors(tensors, config["r"], config["target_modules"])
    except AdapterRefusedError as error:
        raise BatchError(f"the update made an adapter that cannot be served: {error}") from error
    return {CONFIG: _as_json(config), WEIGHTS: save_safetensors(tensors, metadata={"format": "pt"})}


def _read_state(settings: TrainerSettings, name: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((settings.checkpoints_root / name / STATE).read_text(encoding="utf-8"))
    return state


def _as_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode()
