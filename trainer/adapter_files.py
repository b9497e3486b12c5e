"""Adapters on disk: made aside, flushed, renamed into their name, and never changed afterwards (I7).

What is written is exactly what vLLM loads: lora_A and lora_B, float32, one rank, no extras (B150-B154).
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors

from ledger.durable import sync_path
from trainer.errors import AdapterRefusedError
from trainer.setting_types import VLLM_RANKS

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
_NOT_SERVABLE = ("modules_to_save", "trainable_token_indices", "target_parameters", "use_dora", "lora_bias")


def write_directory(final: Path, files: Mapping[str, bytes], mark: str) -> None:
    """Write files beside `final`, flush them, and rename. Raises FileExistsError if `final` is there already.

    A crash leaves a directory that begins with a dot and is removed by the next attempt; never half of `final`.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    for stale in final.parent.glob(f".{escape(final.name)}.*"):
        shutil.rmtree(stale, ignore_errors=True)
    aside = final.parent / f".{final.name}.{mark}"
    aside.mkdir()
    aside.chmod(0o755)
    for name, content in files.items():
        _write_file(aside / name, content)
    sync_path(aside)
    if final.exists():
        shutil.rmtree(aside)
        raise FileExistsError(final)
    aside.rename(final)
    sync_path(final.parent)


def _write_file(path: Path, content: bytes) -> None:
    """Mode 0644: vLLM may run as another user."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o644)


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def check_adapter(directory: Path, sha256: str | None = None) -> dict[str, torch.Tensor]:
    """The tensors of an adapter that vLLM can load, or AdapterRefusedError that says what is wrong with it."""
    try:
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        content = (directory / WEIGHTS).read_bytes()
        tensors = load_safetensors(content)
    except (OSError, ValueError, SafetensorError) as error:
        raise AdapterRefusedError(f"{directory} cannot be read: {error}") from error
    if sha256 is not None and sha256_of(content) != sha256:
        raise AdapterRefusedError(f"{directory / WEIGHTS} has changed since it was saved")
    check_config(config)
    check_tensors(tensors, config["r"], config["target_modules"])
    return tensors


def check_config(config: Mapping[str, Any]) -> None:
    extras = [name for name in _NOT_SERVABLE if config.get(name)]
    if config.get("bias", "none") != "none":
        extras.append("bias")
    if extras:
        raise AdapterRefusedError(f"vLLM cannot serve an adapter with {', '.join(extras)}")
    if config.get("r") not in VLLM_RANKS:
        raise AdapterRefusedError(f"vLLM cannot serve rank {config.get('r')}")


def check_tensors(tensors: Mapping[str, torch.Tensor], rank: int, target_modules: list[str]) -> None:
    """Only lora_A [rank, in] and lora_B [out, rank] of the target modules, finite, float32."""
    for name, tensor in tensors.items():
        module, _, half = name.removesuffix(".weight").rpartition(".")
        if half not in ("lora_A", "lora_B") or module.rpartition(".")[2] not in target_modules:
            raise AdapterRefusedError(f"{name} is not a LoRA weight of {', '.join(target_modules)}")
        if tensor.shape[0 if half == "lora_A" else 1] != rank:
            raise AdapterRefusedError(f"{name} has shape {list(tensor.shape)}, which is not of rank {rank}")
        if tensor.dtype != torch.float32:
            raise AdapterRefusedError(f"{name} is {tensor.dtype}, not float32")
        if not bool(torch.isfinite(tensor).all()):
            raise AdapterRefusedError(f"{name} holds a number that is not finite")
        other = f"{module}.lora_{'B' if half == 'lora_A' else 'A'}.weight"
        if other not in tensors:
            raise AdapterRefusedError(f"{name} lacks its other half")
    if not tensors:
        raise AdapterRefusedError("the adapter is empty")
