"""The update of a step of sft: several optimizer steps on batches of weighted likelihood, one version at the end.

Invariant (I9): order and batches come from the step's seed alone. Moments belong to the kind: these are fresh and end here,
while those of the last grpo step, and its count, go on with the adapter unchanged (docs/decisions/0026).
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from trainer.claim import Step
from trainer.grpo.loss_settings import LossKind, Normalization
from trainer.grpo.metrics import LossMetrics
from trainer.grpo.samples import Sample
from trainer.imitation.build import wish_of
from trainer.learned import Learned, learned_of
from trainer.material import Material
from trainer.parent import Parent
from trainer.policy_model import PolicyModel, deterministic
from trainer.settings import TrainerSettings
from trainer.update import gradients_of

T = TypeVar("T")
# Whatever rewards are learned with: the weights of samples are of a mean over tokens.
LIKELIHOOD = {"loss": LossKind.NLL, "kl": 0.0, "normalize": Normalization.TOKENS}


def learn(
    model: PolicyModel,
    parent: Parent,
    material: Material,
    settings: TrainerSettings,
    step: Step,
    between_rows: Callable[[], None] = lambda: None,
) -> Learned:
    """Raises BatchError where a loss or a gradient is not finite; the parent is then as it was."""
    epochs = wish_of(step).epochs or settings.sft_epochs
    begin(model, parent, settings, settings.sft_learning_rate)
    seen = [
        one_step(model, batch, settings, between_rows)
        for batch in batches(material.samples, length_of, settings.sft_batch_tokens, epochs, step.seed)
    ]
    metrics = summary(seen) | {
        "learning_rate": settings.sft_learning_rate,
        "num_epochs": epochs,
        "num_trained_tokens": sum(sample.num_sampled for sample in material.samples),
    }
    return with_moments_of(parent, learned_of(model, settings.base_model, parent.optimizer_step, metrics))


def begin(model: PolicyModel, parent: Parent, settings: TrainerSettings, rate: float) -> None:
    """The parent's adapter, and moments of nobody."""
    model.reset(parent.adapter, None)
    model.begin(rate, (settings.adam_beta1, settings.adam_beta2), settings.weight_decay)


def with_moments_of(parent: Parent, learned: Learned) -> Learned:
    """What the next grpo step begins with: the moments and the count of the last one."""
    return Learned(
        adapter=learned.adapter,
        config=learned.config,
        moments=parent.moments or {},
        optimizer_step=parent.optimizer_step,
        probe=learned.probe,
        metrics=learned.metrics,
    )


def one_step(
    model: PolicyModel,
    samples: Sequence[Sample],
    settings: TrainerSettings,
    between_rows: Callable[[], None],
) -> tuple[LossMetrics, float]:
    """One optimizer step on weighted likelihood: its metrics, and the gradient's norm before clipping."""
    likelihood = settings.model_copy(update=LIKELIHOOD)
    with deterministic(model.device):
        metrics, _, _ = gradients_of(model, samples, likelihood, between_rows)
        return metrics, model.apply(settings.grad_clip)


def batches(
    items: Sequence[T], length: Callable[[T], int], most_tokens: int, epochs: int, seed: int
) -> Iterator[list[T]]:
    """Each epoch in another order, each batch of at most so many tokens (one item may have more)."""
    chance = random.Random(seed)  # noqa: S311 - an order, no secret
    for _ in range(epochs):
        batch: list[T] = []
        num_tokens = 0
        for item in chance.sample(items, len(items)):
            if batch and num_tokens + length(item) > most_tokens:
                yield batch
                batch, num_tokens = [], 0
            batch.append(item)
            num_tokens += length(item)
        if batch:
            yield batch


def length_of(sample: Sample) -> int:
    return len(sample.token_ids)


def summary(seen: Sequence[tuple[LossMetrics, float]]) -> dict[str, Any]:
    """Figures of all optimizer steps; `loss_first` and `loss_last` are of the first and the last batch."""
    total = sum((metrics for metrics, _ in seen), LossMetrics())
    tokens = max(total.num_tokens, 1)
    return {
        "loss": sum(metrics.loss * metrics.num_tokens for metrics, _ in seen) / tokens,
        "loss_first": seen[0][0].loss,
        "loss_last": seen[-1][0].loss,
        "entropy": total.summary()["entropy"],
        "grad_norm": max(norm for _, norm in seen),
        "num_optimizer_steps": len(seen),
    }
