"""Our gradients on the bench's model against float64, one sequence at a time, unpacked: written from the formulas alone.

    python -m bench.train.exact --model DIR --out FILE

Invariant: nothing of the trainer's arithmetic is used for what it is compared with (tests/trainer has the same for a tiny
model and for every setting; this one is about the real model's size).
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from bench.train import groups
from bench.train.shapes import Shape, exchanges_of
from trainer.grpo.packing import pack
from trainer.grpo.samples import Sample
from trainer.model_cache import ModelCache
from trainer.policy_model import PolicyModel
from trainer.update import accumulate

SMALL = Shape("exact", "two turns", 1, prompt=(40, 40), answer=(4, 8), num_turns=2, user=(3, 5))
ROW_TOKENS = 48  # several rows on one stem
LOGPROB = -8.0  # sampled by another policy: ratios are not 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    settings = groups.settings_for(options.model, options.out.parent, trust_log_ratio=20.0)
    exchanges = exchanges_of(SMALL)
    samples = groups.samples_of(exchanges, [[LOGPROB] * len(one.completion_ids) for one in exchanges])
    model = ModelCache().get(settings)
    stir(model)
    rows = pack(samples, ROW_TOKENS)
    accumulate(model, rows, settings)
    expected = exact_gradients(options.model, samples, dict(model.lora), settings.cispo_cap)
    errors = {
        name: float((parameter.grad.double() - expected[name]).norm() / expected[name].norm())
        for name, parameter in model.lora.items()
        if parameter.grad is not None
    }
    assert errors.keys() == expected.keys()
    found = {"largest_error": max(errors.values()), "num_tensors": len(errors), "num_rows": len(rows)}
    options.out.write_text(json.dumps(found), encoding="utf-8")


def stir(model: PolicyModel) -> None:
    """lora_B is zero at first, which hides half the gradients."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.lora.values():
            parameter.normal_(0, 0.02)


def exact_gradients(
    path: str, samples: list[Sample], lora: dict[str, Tensor], cap: float
) -> dict[str, Tensor]:
    network = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float64, attn_implementation="eager")
    network.requires_grad_(False)
    exact = {name: value.detach().double().requires_grad_() for name, value in lora.items()}
    for prefix in {name.split(".lora_")[0] for name in exact}:
        hook = added(exact[f"{prefix}.lora_A.weight"], exact[f"{prefix}.lora_B.weight"])
        network.get_submodule(prefix.removeprefix("base_model.model.")).register_forward_hook(hook)
    num_tokens = sum(sample.num_sampled for sample in samples)
    for sample in samples:
        (loss_of(network, sample, cap) / num_tokens).backward()  # type: ignore[no-untyped-call]
    return {name: value.grad for name, value in exact.items() if value.grad is not None}


def added(lora_a: Tensor, lora_b: Tensor) -> Callable[[Any, Any, Tensor], Tensor]:
    return lambda _module, inputs, output: (
        output + groups.ALPHA / groups.RANK * (inputs[0] @ lora_a.T @ lora_b.T)
    )


def loss_of(network: Any, sample: Sample, cap: float) -> Tensor:
    """CISPO, arXiv:2506.13585: -min(ratio, cap) advantage logprob, summed over the sampled tokens."""
    logprobs = network(torch.tensor([sample.token_ids]), use_cache=False).logits[0].log_softmax(-1)
    loss = torch.zeros((), dtype=torch.float64)
    for span in sample.spans:
        for index, old in zip(range(span.start, span.stop), span.sampling_logprobs, strict=True):
            new = logprobs[index - 1, sample.token_ids[index]]
            loss = loss - min(float((new.detach() - old).exp()), cap) * span.advantage * new
    return loss


if __name__ == "__main__":
    main()
