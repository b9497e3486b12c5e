"""The independent reference: float64, one sequence at a time, no packing, no cache, plain autograd.

It shares no line of arithmetic with trainer/: written from the papers' formulas alone, one exchange (= sequence) at a time.
"""

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any
from uuid import UUID

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from trainer.grpo.samples import Sample, Span
from trainer.settings import TrainerSettings

ByExchange = dict[UUID, Tensor]


class Reference:
    def __init__(self, path: str, lora: dict[str, Tensor], scale: float) -> None:
        self.network: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float64, attn_implementation="eager"
        )
        self.lora = {name: value.detach().double().clone().requires_grad_() for name, value in lora.items()}
        self.scale = scale
        self.is_on = True
        for prefix in {name.split(".lora_")[0] for name in lora}:
            module = self.network.get_submodule(prefix.removeprefix("base_model.model."))
            module.register_forward_hook(self._hook(prefix))

    def _hook(self, prefix: str) -> Any:
        a, b = self.lora[f"{prefix}.lora_A.weight"], self.lora[f"{prefix}.lora_B.weight"]
        return lambda module, inputs, output: (
            output + self.scale * (inputs[0] @ a.T @ b.T) if self.is_on else None
        )

    def logprobs(self, samples: Sequence[Sample], *, is_adapted: bool = True) -> ByExchange:
        """The logprob of each sampled token, by exchange; with gradient where the adapter is on."""
        self.is_on, found = is_adapted, ByExchange()
        for sample in samples:
            logits = self.network(torch.tensor([sample.token_ids])).logits[0]
            for span in sample.spans:
                at = logits[span.start - 1 : span.stop - 1] / span.temperature
                tokens = torch.tensor(sample.token_ids[span.start : span.stop])
                found[span.exchange_id] = at.log_softmax(-1)[torch.arange(len(tokens)), tokens]
        return found if is_adapted else {id_: value.detach() for id_, value in found.items()}

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        found = torch.autograd.grad(loss, list(self.lora.values()), retain_graph=True)
        return dict(zip(self.lora, found, strict=True))


def advantages_of(rewards: Sequence[float], settings: TrainerSettings) -> list[float]:
    """Of a group that the caller made: r - mean, divided by the standard deviation where that is asked for."""
    spread = pstdev(rewards) if settings.scale_by_std else 1.0
    return [(reward - fmean(rewards)) / (spread or 1.0) for reward in rewards]


def loss_of(
    spans: Sequence[Span],
    advantages: dict[UUID, float],
    new: ByExchange,
    base: ByExchange,
    settings: TrainerSettings,
) -> Tensor:
    num_tokens = sum(span.stop - span.start for span in spans)
    total = torch.zeros((), dtype=torch.float64)
    for span in spans:
        length = span.stop - span.start
        share = 1 / num_tokens if settings.normalize == "tokens" else 1 / (length * len(spans))
        id_ = span.exchange_id
        total = total + share * exchange_loss(span, advantages[id_], new[id_], base[id_], settings)
    return total


def exchange_loss(
    span: Span, advantage: float, new: Tensor, base: Tensor, settings: TrainerSettings
) -> Tensor:
    """The sum of its terms. At sequence level PPO is one term, whose ratio really is the mean: as often as it has tokens."""
    old = torch.tensor(span.sampling_logprobs, dtype=torch.float64)
    is_nll = settings.loss == "nll"
    kept = [
        i
        for i in range(len(new))
        if is_nll or abs(float(new[i].detach() - old[i])) <= settings.trust_log_ratio
    ]
    if not kept:
        return torch.zeros((), dtype=torch.float64)
    new, old, base = new[kept], old[kept], base[kept]
    difference = base - new
    divergence = (difference.exp() - 1 - difference).sum()
    return policy_loss(advantage, new, old, settings) + settings.kl * divergence


def policy_loss(advantage: float, new: Tensor, old: Tensor, settings: TrainerSettings) -> Tensor:
    if settings.loss == "nll":
        return -(advantage * new).sum()
    log_ratios = new - old
    if settings.importance == "sequence":
        log_ratios = log_ratios.mean().repeat(len(new))
    ratios = log_ratios.exp()
    if settings.loss == "cispo":
        return -sum(
            min(float(r.detach()), settings.cispo_cap) * advantage * p
            for r, p in zip(ratios, new, strict=True)
        )
    if settings.importance_cap is not None:
        own = (new - new.detach()).exp()
        return -sum(
            min(float(r.detach()), settings.importance_cap) * advantage * o
            for r, o in zip(ratios, own, strict=True)
        )
    bounded = ratios.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    return -torch.minimum(ratios * advantage, bounded * advantage).sum()
