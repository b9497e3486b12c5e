"""The independent reference: float64, one sequence at a time, no packing, no cache, plain autograd.

It shares no line with trainer/: written from the formulas alone.
"""

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from trainer.grpo.samples import Sample
from trainer.settings import TrainerSettings


class Reference:
    def __init__(self, path: str, lora: dict[str, Tensor], scale: float) -> None:
        self.network = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float64, attn_implementation="eager"
        )
        self.lora = {name: value.detach().double().clone().requires_grad_() for name, value in lora.items()}
        self.scale = scale
        self.is_on = True
        for prefix in {name.split(".lora_")[0] for name in lora}:
            module = self.network.get_submodule(prefix.removeprefix("base_model.model."))
            module.register_forward_hook(self._hook(prefix))

    def _hook(self, prefix: str):
        a, b = self.lora[f"{prefix}.lora_A.weight"], self.lora[f"{prefix}.lora_B.weight"]
        return lambda module, inputs, output: (
            output + self.scale * (inputs[0] @ a.T @ b.T) if self.is_on else None
        )

    def logprob(self, sample: Sample, index: int, temperature: float, logits: Tensor) -> Tensor:
        return (logits[index - 1] / temperature).log_softmax(-1)[sample.token_ids[index]]

    def loss(self, samples: list[Sample], settings: TrainerSettings) -> Tensor:
        total = sum(sample.num_sampled for sample in samples)
        loss = torch.zeros((), dtype=torch.float64)
        for sample in samples:
            self.is_on = True
            logits = self.network(torch.tensor([sample.token_ids])).logits[0]
            self.is_on = False
            base = self.network(torch.tensor([sample.token_ids])).logits[0].detach()
            for span in sample.spans:
                for offset, index in enumerate(range(span.start, span.stop)):
                    new = self.logprob(sample, index, span.temperature, logits)
                    old = torch.tensor(span.sampling_logprobs[offset], dtype=torch.float64)
                    loss = loss + self.term(new, old, span.advantage, settings) / total
                    if settings.kl and abs(new.item() - old.item()) <= settings.trust_log_ratio:
                        d = self.logprob(sample, index, span.temperature, base) - new
                        loss = loss + settings.kl * (d.exp() - d - 1) / total
        return loss

    def term(self, new: Tensor, old: Tensor, advantage: float, settings: TrainerSettings) -> Tensor:
        if abs(new.item() - old.item()) > settings.trust_log_ratio:
            return new * 0
        ratio = (new - old).exp()
        if settings.loss == "cispo":
            return -min(ratio.item(), settings.cispo_cap) * advantage * new
        low, high = 1 - settings.clip_low, 1 + settings.clip_high
        return -torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
