"""Lean layers: the same answers and gradients as transformers' and peft's, with fewer tensors kept."""

from typing import Any

import pytest
import torch
from peft import get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from tests.trainer.tiny import VOCABULARY
from trainer.frozen_layers import lean
from trainer.policy_model import LoraShape, lora_config


def make(tiny_path, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(4)
    peft = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tiny_path, dtype=dtype), lora_config(LoraShape())
    )
    for parameter in peft.parameters():
        if parameter.requires_grad:
            parameter.data.normal_(0, 0.1)
        elif parameter.dim() == 1:
            parameter.data.uniform_(0.5, 1.5)  # a norm's weights are all one at first, which hides them
    return peft


def gradients(peft: Any) -> dict[str, torch.Tensor]:
    ids = torch.randint(VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(1))
    peft(input_ids=ids, use_cache=False).logits.float().log_softmax(-1).pow(2).mean().backward()
    return {name: p.grad.float() for name, p in peft.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_a_lean_network_gives_the_same_gradients(tiny_path, dtype, tolerance) -> None:
    plain, leaner = make(tiny_path, dtype), make(tiny_path, dtype)
    assert lean(leaner) == 2 * 7 + (2 * 2 + 1) + 2  # linear layers, norms, MLPs
    expected, found = gradients(plain), gradients(leaner)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert float((found[name] - gradient).norm()) <= tolerance * float(gradient.norm()), name


def kept_bytes(peft: Any, num_tokens: int) -> int:
    """What autograd keeps for the backward pass of the trunk, without the weights."""
    storages: dict[int, int] = {}
    alive = []
    weights = {p.untyped_storage().data_ptr() for p in peft.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)  # or its address would be given to another
        return tensor

    ids, mask = torch.arange(num_tokens)[None], torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        peft.get_base_model().model(input_ids=ids, attention_mask=mask[None, None], use_cache=False)
    return sum(storages.values())


def test_a_lean_network_keeps_fewer_bytes_for_the_backward_pass(tiny_path) -> None:
    plain, leaner = make(tiny_path), make(tiny_path)
    lean(leaner)
    # of a model whose rank is a quarter of its width; of SmolLM2's it is less than half
    assert kept_bytes(leaner, 60) < 0.85 * kept_bytes(plain, 60)


def test_an_adapter_of_another_shape_finds_the_base_as_it_was(tiny_path) -> None:
    """One base serves policies of several ranks: what was replaced for one is not wrapped again for the next."""
    network = AutoModelForCausalLM.from_pretrained(tiny_path)
    for rank in (8, 16, 8):
        peft = get_peft_model(network, lora_config(LoraShape(rank)))
        assert lean(peft) == 2 * 7 + (2 * 2 + 1) + 2
        mlp = next(module for name, module in peft.named_modules() if name.endswith("layers.0.mlp"))
        _, plain_forward, _ = mlp.forward.args
        assert plain_forward.__func__ is type(mlp).forward
        network = peft.unload()


def test_with_the_adapter_off_a_lean_network_is_the_base(tiny_path) -> None:
    peft = make(tiny_path)
    ids = torch.arange(12)[None]
    with torch.no_grad(), peft.disable_adapter():
        before = peft(input_ids=ids, use_cache=False).logits
        lean(peft)
        assert torch.allclose(peft(input_ids=ids, use_cache=False).logits, before, atol=1e-5)


class ShiftedRMSNorm(nn.Module):
    """As Gemma's: the weight is what is added to one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8))
        self.variance_epsilon = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon) * (1 + self.weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_mlp_of_another_activation_stays_as_it_is_however_small_its_weights(dtype: torch.dtype) -> None:
    config = LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        hidden_act="gelu", initializer_range=0.005,
    )  # fmt: skip
    torch.manual_seed(4)
    peft = get_peft_model(LlamaForCausalLM(config).to(dtype), lora_config(LoraShape()))
    assert lean(peft) == 7 + 3  # its linear layers and norms


def test_a_layer_that_computes_something_else_stays_as_it_is() -> None:
    assert lean(nn.Sequential(ShiftedRMSNorm())) == 0
