"""The policy: a frozen base model with one LoRA adapter and its optimizer, kept in memory between steps.

Invariant (I9): `reset` puts exactly the parent's bytes in place, whatever was there before, so a step's result depends
on the parent, the samples and the settings alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from trainer.errors import CheckpointError, SurroundingsError
from trainer.frozen_layers import lean
from trainer.grpo.head import token_logprobs
from trainer.grpo.packing import PackedRow
from trainer.layer_checkpoints import LayerCheckpoints
from trainer.memory_plan import shape_of
from trainer.peers import ALONE, Peers
from trainer.stem_path import StemPath

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
# Families whose head does more than multiply: their logprobs would be wrong, so they are refused by name.
_UNUSUAL_HEADS = ("final_logit_softcapping", "logits_scaling", "logit_scale")


@dataclass(frozen=True, slots=True)
class LoraShape:
    rank: int = 8
    alpha: float = 16.0


def pick_device(wish: str) -> torch.device:
    if wish == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(wish)


class PolicyModel:
    """Load once, then per step: `reset`, `logprobs` and backward for each row, `apply`."""

    def __init__(self, base: Any, shape: LoraShape, seed: int, device: torch.device) -> None:
        self.shape = shape
        self.device = device
        self.peers: Peers = ALONE
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.peft: PeftModel = get_peft_model(base, lora_config(shape))
        self.lora = {
            name.replace(".default.", "."): parameter
            for name, parameter in self.peft.named_parameters()
            if parameter.requires_grad
        }
        self._initial = {name: parameter.detach().clone() for name, parameter in self.lora.items()}
        self.memory_shape = shape_of(base.config, shape.rank, base.dtype.itemsize)
        lean(self.peft)
        self.checkpoints = LayerCheckpoints(self.peft)
        network: Any = self.peft.get_base_model()
        self._trunk = getattr(network, network.base_model_prefix)
        self._path, self._base_path = StemPath(self._trunk, device), StemPath(self._trunk, device)
        self._head_VH: Tensor = network.get_output_embeddings().weight
        self.optimizer: torch.optim.AdamW | None = None
        self._moments: dict[str, Tensor] | None = None

    @classmethod
    def load(cls, path: str, shape: LoraShape, seed: int, device: torch.device) -> "PolicyModel":
        """fp32 on a CPU, bfloat16 on a GPU (the adapter stays fp32). Raises SurroundingsError with the remedy."""
        return cls(load_base(path, device).to(device), shape, seed, device)

    def with_shape(self, shape: LoraShape, seed: int) -> "PolicyModel":
        """The same base with another adapter, which takes this one's place: this model is of no use afterwards."""
        return PolicyModel(self.peft.unload(), shape, seed, self.device)

    @property
    def target_modules(self) -> list[str]:
        return sorted({name.split(".lora_")[0].rsplit(".", 1)[1] for name in self.lora})

    @property
    def vocabulary_size(self) -> int:
        return self._head_VH.shape[0]

    def reset(self, adapter: dict[str, Tensor] | None, moments: dict[str, Tensor] | None) -> None:
        """Become the parent: its adapter and optimizer state; None and None = the base model's version 0."""
        state = self._initial if adapter is None else adapter
        if state.keys() != self.lora.keys() or any(state[k].shape != p.shape for k, p in self.lora.items()):
            raise CheckpointError(
                "the parent's adapter has other layers or another rank than SLIPSTREAM_BASE_MODEL and "
                "SLIPSTREAM_LORA_RANK say: set them back, or begin a new policy"
            )
        with torch.no_grad():
            for name, parameter in self.lora.items():
                parameter.copy_(state[name])
        self.forget()
        self._moments = moments

    def forget(self) -> None:
        """What a step that was broken off has left: gradients, and stems that are open."""
        self._path.drop()
        self._base_path.drop()
        for parameter in self.lora.values():
            parameter.grad = None

    def begin(self, learning_rate: float, betas: tuple[float, float], weight_decay: float) -> None:
        """A fresh AdamW that holds the parent's moments, beside the parameters; its `step` counts on the CPU."""
        self.optimizer = torch.optim.AdamW(
            list(self.lora.values()), lr=learning_rate, betas=betas, weight_decay=weight_decay
        )
        if self._moments is not None:
            for name, parameter in self.lora.items():
                places = {"step": torch.device("cpu")}
                self.optimizer.state[parameter] = {
                    moment: self._moments[f"{name}.{moment}"].clone().to(places.get(moment, parameter.device))
                    for moment in MOMENTS
                }

    def logprobs(self, row: PackedRow) -> tuple[Tensor, Tensor]:
        """(policy_logprobs_T, entropies_T) at the sampling temperature, with gradient to the adapter. What its stem adds
        to the gradient comes when the next row is on another, and for the last with `close_stems`.
        """
        hidden_KH = self._path.hidden(row)
        return token_logprobs(hidden_KH[row.source_T], self._head_VH, row.target_T, row.temperatures_T)

    def base_logprobs(self, row: PackedRow) -> Tensor:
        """The same under the base model: the adapter switched off, no gradient."""
        with torch.no_grad(), self.peft.disable_adapter():
            hidden_KH = self._base_path.hidden(row)
            return token_logprobs(hidden_KH[row.source_T], self._head_VH, row.target_T, row.temperatures_T)[0]

    def close_stems(self) -> None:
        """After the last row: the gradient is whole."""
        self._path.close()
        self._base_path.drop()

    @property
    def dtype_name(self) -> str:
        """The base's number format: float32 or bfloat16."""
        return str(self._head_VH.dtype).removeprefix("torch.")

    def next_token_logprobs(self, prompt_ids: list[int]) -> Tensor:
        """log_softmax over the vocabulary after a prompt, at temperature 1: shape [V]."""
        with torch.no_grad():
            ids = torch.tensor([prompt_ids], device=self.device)
            last_H = self._trunk(input_ids=ids, use_cache=False).last_hidden_state[0, -1]
            return torch.log_softmax((self._head_VH @ last_H).float(), dim=-1)

    def apply(self, grad_clip: float) -> float:
        """Clip, take the optimizer's step, drop the gradients; returns the gradient's norm before clipping."""
        assert self.optimizer is not None, "begin() comes first"
        norm = torch.nn.utils.clip_grad_norm_(self.lora.values(), grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def rest(self) -> None:
        """Take no step where there is nothing to learn: neither decay nor the parent's momentum moves a weight."""
        assert self.optimizer is not None, "begin() comes first"
        for parameter in self.lora.values():
            parameter.grad = None
            if not self.optimizer.state[parameter]:
                zeros = torch.zeros_like(parameter)
                moments = {"step": torch.zeros(()), "exp_avg": zeros, "exp_avg_sq": zeros.clone()}
                self.optimizer.state[parameter] = moments

    def adapter_state(self) -> dict[str, Tensor]:
        """What vLLM loads: lora_A and lora_B of every layer, nothing else, on the CPU."""
        return {name: parameter.detach().cpu().contiguous() for name, parameter in self.lora.items()}

    def optimizer_state(self) -> dict[str, Tensor]:
        assert self.optimizer is not None, "begin() comes first"
        state = self.optimizer.state
        return {
            f"{name}.{moment}": state[parameter][moment].detach().cpu().contiguous()
            for name, parameter in self.lora.items()
            for moment in MOMENTS
        }


def load_base(path: str, device: torch.device) -> Any:
    """The base in the host's memory, in the number format of `device`. Raises SurroundingsError with the remedy."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    try:
        base: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, attn_implementation="sdpa", use_safetensors=True
        )
    except (OSError, ValueError) as error:
        raise SurroundingsError(
            f"the base model cannot be loaded from {path}: check SLIPSTREAM_BASE_MODEL ({error})"
        ) from error
    _refuse_unusual(base, path)
    return base.eval()


def lora_config(shape: LoraShape) -> LoraConfig:
    """All linear layers but the head; no bias, no DoRA, no modules_to_save: vLLM loads nothing else (B150, B151)."""
    alpha: Any = int(shape.alpha) if shape.alpha.is_integer() else shape.alpha  # 16, as peft itself writes it
    return LoraConfig(
        r=shape.rank,
        lora_alpha=alpha,
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
        target_modules="all-linear",
    )


def _refuse_unusual(base: Any, path: str) -> None:
    config = base.config.get_text_config()
    unusual = [name for name in _UNUSUAL_HEADS if getattr(config, name, None) not in (None, 1, 1.0)]
    head = base.get_output_embeddings()
    if unusual or head is None or getattr(head, "bias", None) is not None:
        raise SurroundingsError(
            f"{path} computes its logits in a way that is not supported ({', '.join(unusual) or 'its head'}): "
            "choose another SLIPSTREAM_BASE_MODEL"
        )


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """The same bytes for the same inputs on one machine. On a CPU our operations already are."""
    if device.type == "cpu":
        yield
        return
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
