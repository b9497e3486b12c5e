"""Lean layers: the same answers and gradients as transformers' and peft's, with fewer tensors kept."""

from typing import Any

import pytest
import torch
from peft import get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM

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


def test_a_lean_network_keeps_fewer_bytes_for_the_backward_pass(tiny_path) -> None:
    kept = {}
    for is_lean in (False, True):
        peft = make(tiny_path)
        if is_lean:
            lean(peft)
        storages: dict[int, int] = {}
        weights = {p.untyped_storage().data_ptr() for p in peft.parameters()}

        def keep(tensor: torch.Tensor, storages=storages, weights=weights) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                storages[storage.data_ptr()] = storage.nbytes()
            return tensor

        trunk = peft.get_base_model().model
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            hidden = trunk(input_ids=torch.arange(60)[None], use_cache=False).last_hidden_state
        kept[is_lean] = sum(storages.values())
        del hidden
    assert kept[True] < 0.85 * kept[False]  # of a model whose rank is a quarter of its width; SmolLM2's: 0.45


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


def test_a_layer_that_computes_something_else_stays_as_it_is() -> None:
    assert lean(nn.Sequential(ShiftedRMSNorm())) == 0
